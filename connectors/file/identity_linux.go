package file

import (
	"os"

	"golang.org/x/sys/unix"
)

// inodeOf identifies a file by its path, following links.
func inodeOf(path string) (inode, error) { return statx(unix.AT_FDCWD, path, 0) }

// inodeOfFile identifies an open file and tells how many names it has.
func inodeOfFile(f *os.File) (inode, error) { return statx(int(f.Fd()), "", unix.AT_EMPTY_PATH) }

func statx(dir int, path string, flags int) (inode, error) {
	var st unix.Statx_t
	if err := unix.Statx(dir, path, flags, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return inode{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	i := inode{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		i.born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return i, nil
}

// unlinked reports whether an open file has no name any more.
func unlinked(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 0
}
