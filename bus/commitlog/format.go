package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The format is specified in FORMAT.md.
const (
	version       = 1
	segmentMagic  = "MRSEGMNT"
	segmentHeader = 64 // bytes before the first frame
	frameHeader   = 32
	frameMagic    = 'M' | 'R'<<8 | 'F'<<16 | version<<24
	frameAlign    = 8
	flagSeal      = 1 // the segment ends here
	suffix        = ".seg"
)

var (
	errEnd      = errors.New("no frame")
	errBad      = errors.New("not a whole frame")
	errUnsealed = errors.New("segment is not sealed, yet another follows")
)

// frameSize returns the bytes that a frame takes with n bytes of payload.
func frameSize(n int) int64 {
	return (frameHeader + int64(n) + frameAlign - 1) &^ (frameAlign - 1)
}

func fileName(base Position) string { return fmt.Sprintf("%020d%s", uint64(base), suffix) }

// parseName returns the base position in a segment's file name.
func parseName(name string) (Position, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseUint(digits, 10, 64)
	return Position(base), err == nil
}

func isZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// encodeSegment returns a segment's header and its seed, with which every
// checksum of its frames begins.
func encodeSegment(base Position, created time.Time) (b []byte, seed uint32) {
	b = make([]byte, segmentHeader)
	copy(b, segmentMagic)
	binary.LittleEndian.PutUint32(b[8:], version)
	binary.LittleEndian.PutUint64(b[16:], uint64(base))
	binary.LittleEndian.PutUint64(b[24:], uint64(created.UnixNano()))
	seed = checksum(0, b)
	binary.LittleEndian.PutUint32(b[12:], seed)
	return b, seed
}

// decodeSegment checks a segment's header and returns its seed. What is wrong
// with the bytes is a *CorruptError; a version that is not ours is another error.
func decodeSegment(file string, b []byte, base Position) (seed uint32, err error) {
	corrupt := func(problem string) error {
		return &CorruptError{File: file, Err: fmt.Errorf("segment header: %s", problem)}
	}
	if len(b) < segmentHeader {
		return 0, corrupt("file is too short")
	}
	if string(b[:8]) != segmentMagic {
		return 0, corrupt("this is no segment")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return 0, fmt.Errorf("%s: segment format %d: this program reads format %d: use the one that wrote it",
			filepath.Base(file), v, version)
	}
	var h [segmentHeader]byte
	copy(h[:], b)
	seed = binary.LittleEndian.Uint32(h[12:])
	binary.LittleEndian.PutUint32(h[12:], 0)
	switch {
	case checksum(0, h[:]) != seed:
		return 0, corrupt("checksum does not match")
	case binary.LittleEndian.Uint64(h[16:]) != uint64(base):
		return 0, corrupt("position is not that of the file name")
	case !isZero(h[32:]):
		return 0, corrupt("reserved bytes are not zero")
	}
	return seed, nil
}

// head is a frame's header.
type head struct {
	length       int
	sum          uint32
	kind, flags  byte
	pos, durable Position
}

func (h *head) next() Position { return h.pos + Position(frameSize(h.length)) }

// put writes the header with a zero checksum.
func (h *head) put(b []byte) {
	_ = b[frameHeader-1]
	binary.LittleEndian.PutUint32(b, frameMagic)
	binary.LittleEndian.PutUint32(b[4:], uint32(h.length))
	binary.LittleEndian.PutUint32(b[8:], 0)
	b[12], b[13], b[14], b[15] = h.kind, h.flags, 0, 0
	binary.LittleEndian.PutUint64(b[16:], uint64(h.pos))
	binary.LittleEndian.PutUint64(b[24:], uint64(h.durable))
}

// checksum goes on with the CRC-32C sum over b.
func checksum(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}

func putSum(b []byte, sum uint32) { binary.LittleEndian.PutUint32(b[8:], sum) }

// parseHead reads the header of the frame at pos: errEnd when all is zero, an
// error that wraps errBad when it cannot be one. The checksum remains to be checked.
func parseHead(b []byte, pos Position) (h head, err error) {
	if len(b) < frameHeader || isZero(b[:frameHeader]) {
		return h, errEnd
	}
	h = head{
		length:  int(binary.LittleEndian.Uint32(b[4:])),
		sum:     binary.LittleEndian.Uint32(b[8:]),
		kind:    b[12],
		flags:   b[13],
		pos:     Position(binary.LittleEndian.Uint64(b[16:])),
		durable: Position(binary.LittleEndian.Uint64(b[24:])),
	}
	switch {
	case binary.LittleEndian.Uint32(b) != frameMagic:
		return h, fmt.Errorf("%w: wrong magic number", errBad)
	case h.pos != pos:
		return h, fmt.Errorf("%w: it is of another position", errBad)
	case h.durable > pos || h.flags&^flagSeal != 0 || b[14] != 0 || b[15] != 0,
		h.flags == flagSeal && (h.length != 0 || h.kind != 0):
		return h, fmt.Errorf("%w: malformed header", errBad)
	}
	return h, nil
}

// checkSum compares the checksum of a frame, given as its header and payload.
func (h *head) checkSum(seed uint32, header, payload []byte) error {
	var b [frameHeader]byte
	copy(b[:], header)
	putSum(b[:], 0)
	sum := checksum(checksum(seed, b[:]), payload)
	if sum != h.sum {
		return fmt.Errorf("%w: checksum does not match", errBad)
	}
	return nil
}
