package index

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// damageMark is a file that says that a store is damaged.
const damageMark = "damaged"

// damaged notes what Pebble finds damaged, so that the next Open begins with an
// empty store. Reads that need it fail until then.
func damaged(dir string, o Options) func(pebble.DataCorruptionInfo) {
	return func(info pebble.DataCorruptionInfo) {
		o.Logger.Error("views are damaged; they are built anew from the log at the next start", "file", info.Path)
		f, err := o.FS.Create(o.FS.PathJoin(dir, damageMark), vfs.WriteCategoryUnspecified)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			o.Logger.Error("views are damaged, which cannot be noted: delete their directory before the next start", "dir", dir, "error", err)
		}
	}
}

// removeDamaged empties the directory of a store that was found damaged.
func removeDamaged(dir string, o Options) error {
	if _, err := o.FS.Stat(o.FS.PathJoin(dir, damageMark)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	o.Logger.Warn("views were damaged and are built anew", "dir", dir)
	if err := RemoveAll(dir, o.FS); err != nil {
		return err
	}
	if err := o.FS.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("views: %w", err)
	}
	return nil
}
