package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// state is what the small file beside a written file holds. The file is valid up
// to Length; what stands behind it is the rest of a write that was not finished.
type state struct {
	Version int       `json:"version"` // 1
	Length  int64     `json:"length"`
	Begun   time.Time `json:"begun"`             // when the file was begun
	Parts   int       `json:"parts"`             // files renamed away so far
	Columns []string  `json:"columns,omitempty"` // of CSV
	// Offsets are the next offsets needed, by connector and slot. They become
	// durable with the length: one rename. Invariant 2.
	Offsets map[string]map[string]int64 `json:"offsets"`
}

func loadState(path string) (st state, found bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{Version: 1, Offsets: map[string]map[string]int64{}}, false, nil
	}
	if err != nil {
		return state{}, false, err
	}
	if err := json.Unmarshal(b, &st); err != nil || st.Version != 1 || st.Length < 0 {
		return state{}, false, fmt.Errorf("%s: is not a state of this version: remove it to take the file as it is", path)
	}
	if st.Offsets == nil {
		st.Offsets = map[string]map[string]int64{}
	}
	return st, true, nil
}

// store replaces the state at path, durably.
func (st *state) store(path string) error {
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := writeSynced(tmp, b); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
