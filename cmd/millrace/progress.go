package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progressEvery is how often a line is written where there is no terminal.
const progressEvery = 5 * time.Second

// progress shows how far long work has come: a bar on a terminal, a plain line
// now and then in a pipe or file. One goroutine uses it.
type progress struct {
	out   io.Writer
	what  string // such as "published"
	unit  string // such as "events"
	total int    // 0 = not known
	count int
	bar   *progressbar.ProgressBar // nil where there is no terminal
	last  time.Time
}

// newProgress starts with nothing done of total (0 = not known).
func newProgress(out io.Writer, what, unit string, total int) *progress {
	p := &progress{out: out, what: what, unit: unit, total: total, last: time.Now()}
	if isTerminal(out) {
		most := total
		if most == 0 {
			most = -1 // a spinner
		}
		p.bar = progressbar.NewOptions(most,
			progressbar.OptionSetWriter(out),
			progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString(unit),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	return p
}

// add says that n more are done.
func (p *progress) add(n int) {
	p.count += n
	if p.bar != nil {
		// A terminal that takes no more changes nothing about the work.
		_ = p.bar.Add(n)
		return
	}
	if now := time.Now(); now.Sub(p.last) >= progressEvery {
		p.last = now
		p.line()
	}
}

// done takes the bar away and writes the last line.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
	p.line()
}

func (p *progress) line() {
	if p.total > 0 {
		fmt.Fprintf(p.out, "%s %d of %d %s\n", p.what, p.count, p.total, p.unit)
		return
	}
	fmt.Fprintf(p.out, "%s %d %s\n", p.what, p.count, p.unit)
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
