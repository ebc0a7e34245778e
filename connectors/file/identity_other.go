//go:build !linux

package file

import "os"

// inodeOf stands a file's path for its identity.
func inodeOf(path string) (inode, error) {
	_, err := os.Stat(path)
	return inode{ino: hash([]byte(path))}, err
}

func inodeOfFile(f *os.File) (inode, error) { return inode{ino: hash([]byte(f.Name()))}, nil }

func unlinked(f *os.File) bool {
	_, err := os.Stat(f.Name())
	return os.IsNotExist(err)
}
