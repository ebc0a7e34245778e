package file

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// inode tells files apart whatever their names: device, inode number and time of
// birth in nanoseconds (0 where the file system does not keep it).
type inode struct {
	dev, ino uint64
	born     int64
}

func (i inode) String() string { return fmt.Sprintf("%x:%d:%d", i.dev, i.ino, i.born) }

func parseInode(s string) (i inode, ok bool) {
	n, err := fmt.Sscanf(s, "%x:%d:%d", &i.dev, &i.ino, &i.born)
	return i, n == 3 && err == nil
}

// identity is what ids of events begin with: the file and how often it was
// truncated since.
func (i inode) identity(generation int) string {
	var b [32]byte
	binary.BigEndian.PutUint64(b[0:], i.dev)
	binary.BigEndian.PutUint64(b[8:], i.ino)
	binary.BigEndian.PutUint64(b[16:], uint64(i.born))
	binary.BigEndian.PutUint64(b[24:], uint64(generation))
	return fmt.Sprintf("%016x", hash(b[:]))
}

// hash is the first 8 bytes of the SHA-256.
func hash(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// fingerprintBytes is how much of a file's beginning its fingerprint covers.
const fingerprintBytes = 1024

// fingerprint is the hash of a file's first bytes, so that a file truncated and
// grown again, or one that got a deleted file's inode, is not taken for the old one.
type fingerprint struct {
	length int64
	hash   uint64
}

func (p fingerprint) String() string { return fmt.Sprintf("%d:%016x", p.length, p.hash) }

func parseFingerprint(s string) (p fingerprint) {
	length, hash, _ := strings.Cut(s, ":")
	p.length, _ = strconv.ParseInt(length, 10, 64)
	p.hash, _ = strconv.ParseUint(hash, 16, 64)
	return p
}

// take makes the fingerprint of at most the first length bytes.
func take(f *os.File, length int64) (fingerprint, error) {
	buf := make([]byte, min(length, fingerprintBytes))
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fingerprint{}, err
	}
	return fingerprint{length: int64(n), hash: hash(buf[:n])}, nil
}

// of reports whether f still begins as it did when p was taken.
func (p fingerprint) of(f *os.File) (bool, error) {
	if p.length <= 0 {
		return true, nil
	}
	now, err := take(f, p.length)
	return now == p, err
}
