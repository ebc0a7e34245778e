//go:build !linux

package vfs

// Sync is fsync.
func (f *osFile) Sync() error { return f.File.Sync() }
