package commitlog

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed says that the log has been closed.
	ErrClosed = errors.New("log is closed")
	// ErrFailed says that a write or sync failed earlier (the cause is wrapped): what
	// was appended since the last Sync is not durable, and nothing more is taken until
	// the log is opened again.
	ErrFailed = errors.New("log has failed: open it again")
	// ErrFull says that there is no space for a frame. Nothing was changed, and the
	// same Append works once there is space.
	ErrFull = errors.New("no space left for the log")
	// ErrNotFound says that a position or segment is not in the log: removed, or not
	// yet synced, or never a frame's.
	ErrNotFound = errors.New("not in the log")
	// ErrFrameTooLarge says that a payload is larger than Options.MaxFrame.
	ErrFrameTooLarge = errors.New("frame is too large")
)

// CorruptError says that a segment does not hold what was durably written to it.
type CorruptError struct {
	File   string // path of the segment
	Offset int64  // bytes into the file
	Err    error  // what is wrong there
}

// Error names the file, the offset and what is wrong.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: offset %d: log is corrupt: %v", e.File, e.Offset, e.Err)
}

// Unwrap returns what is wrong.
func (e *CorruptError) Unwrap() error { return e.Err }
