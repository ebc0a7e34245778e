package chunk

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The strategies.
const (
	Recursive = "recursive" // at the coarsest separator that makes the pieces small enough
	Markdown  = "markdown"  // at headings; fences and tables stay whole; recursive inside
	Fixed     = "fixed"     // windows of one size
)

// Keep says what becomes of separators in the recursive strategy.
type Keep int

// The choices.
const (
	KeepStart Keep = iota // a separator begins the piece after it
	KeepEnd               // a separator ends the piece before it
	KeepNone              // separators are dropped, and put back between joined pieces
)

// Options say how to split. The zero value splits recursively into chunks of
// at most 1,000 code points that do not overlap.
type Options struct {
	Strategy string // default Recursive
	Size     int    // code points in a chunk at most; default 1000
	Overlap  int    // code points at most that a chunk shares with the one before
	// Separators, from coarse to fine, default paragraph, line, space, code point.
	Separators []string
	Regexp     bool   // separators are regular expressions (RE2)
	Language   string // in place of Separators: those of a language; see Languages
	Keep       Keep
}

// Chunk is a piece of a text.
type Chunk struct {
	Text string
	// Start and End are its place in the text, in bytes: text[Start:End] is Text,
	// except with KeepNone, where dropped separators may have stood between.
	Start, End int
	TitlePath  []string // the headings above it, outermost first; markdown only
}

// Splitter cuts texts. It never changes and may be used by many goroutines.
type Splitter struct {
	o      Options
	seps   []separator
	inside *Splitter // of markdown: for long paragraphs
	lines  *Splitter // of markdown: for fences and tables that are too long
}

// separator is one that pieces are cut at; an empty one cuts at each code point.
type separator struct {
	text   string
	re     *regexp.Regexp // nil = literal
	joiner string         // between pieces that are joined again
}

// defaultSeparators are LangChain's.
func defaultSeparators() []string { return []string{"\n\n", "\n", " ", ""} }

// Sentences are separators that know where sentences end, Chinese and Japanese
// ones too. They go with KeepEnd.
func Sentences() []string {
	return []string{"\n\n", "\n", "。", "！", "？", "；", ". ", "，", " ", ""}
}

// New checks options. The error names the option that is wrong.
func New(o Options) (*Splitter, error) {
	if o.Size == 0 {
		o.Size = 1000
	}
	if o.Strategy == "" {
		o.Strategy = Recursive
	}
	switch {
	case o.Size < 0:
		return nil, errors.New("size: must be at least 1")
	case o.Overlap < 0:
		return nil, errors.New("overlap: must not be negative")
	case o.Overlap > o.Size:
		return nil, fmt.Errorf("overlap: %d is more than the size, %d: make it smaller", o.Overlap, o.Size)
	case o.Strategy != Recursive && o.Strategy != Markdown && o.Strategy != Fixed:
		return nil, fmt.Errorf("strategy: %q is none of recursive, markdown and fixed", o.Strategy)
	}
	if o.Language != "" {
		var known bool
		if o.Separators, known = languages()[o.Language]; !known {
			return nil, fmt.Errorf("language: %q is none of %s", o.Language, strings.Join(Languages(), ", "))
		}
		o.Regexp = true
	}
	if len(o.Separators) == 0 {
		o.Separators = defaultSeparators()
	}
	s := &Splitter{o: o}
	for i, text := range o.Separators {
		sep := separator{text: text}
		if o.Keep == KeepNone {
			sep.joiner = text
		}
		if o.Regexp && text != "" {
			var err error
			if sep.re, err = regexp.Compile(text); err != nil {
				return nil, fmt.Errorf("separators[%d]: %w", i, err)
			}
			if regexp.QuoteMeta(text) != text {
				sep.joiner = "" // a pattern is no text to join with
			}
		}
		s.seps = append(s.seps, sep)
	}
	if o.Strategy != Markdown {
		return s, nil
	}
	var err error
	inside, lines := o, o
	inside.Strategy, lines.Strategy = Recursive, Recursive
	if s.inside, err = New(inside); err != nil {
		return nil, err
	}
	lines.Language, lines.Separators, lines.Regexp, lines.Keep, lines.Overlap = "", []string{"\n", ""}, false, KeepStart, 0
	s.lines, err = New(lines)
	return s, err
}

// Split cuts text. White space around a chunk is left out, and so are chunks of
// nothing else.
func (s *Splitter) Split(text string) []Chunk {
	var out []Chunk
	switch s.o.Strategy {
	case Fixed:
		s.windows(text, span{0, len(text), 0}, true, func(start, end int) {
			if out = appendStripped(out, text, start, end); len(out) > 1 && out[len(out)-1].End <= out[len(out)-2].End {
				out = out[:len(out)-1] // nothing new but white space
			}
		})
	case Markdown:
		out = s.markdown(text)
	default:
		out = s.recursive(text, span{0, len(text), 0}, out)
	}
	return out
}

// span is a piece of a text, in bytes, and its length in code points.
type span struct{ start, end, runes int }

// appendStripped appends the chunk text[start:end] without white space around it.
func appendStripped(out []Chunk, text string, start, end int) []Chunk {
	part := strings.TrimRightFunc(text[start:end], isSpace)
	end = start + len(part)
	part = strings.TrimLeftFunc(part, isSpace)
	if part == "" {
		return out
	}
	return append(out, Chunk{Text: part, Start: end - len(part), End: end})
}

// isSpace is what Python's str.strip takes away.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

// windows tells f of windows of the splitter's size over a span, each beginning
// before the end of the one before by the overlap. With whole, a window does not
// end between a character and its combining marks, nor within CR LF, where that
// can be avoided.
func (s *Splitter) windows(text string, within span, whole bool, f func(start, end int)) {
	overlap := min(s.o.Overlap, s.o.Size-1)
	for start := within.start; start < within.end; {
		end, next := within.end, within.end
		at := start
		for n := 0; at < within.end; n++ {
			if n == s.o.Size {
				end = at
				break
			}
			if n == s.o.Size-overlap {
				next = at
			}
			_, size := utf8.DecodeRuneInString(text[at:within.end])
			at += size
		}
		if end == within.end {
			f(start, end)
			return
		}
		if overlap == 0 {
			next = end
		}
		if whole {
			end = wholeBefore(text, start, end)
			if overlap == 0 {
				next = end
			} else {
				next = min(wholeBefore(text, start, next), end)
			}
		}
		f(start, end)
		start = next
	}
}

// wholeBefore moves a cut back to where a character begins for the reader; where
// that is further than 32 bytes, or at floor, the cut stays.
func wholeBefore(text string, floor, cut int) int {
	for at := cut; at > floor && cut-at < 32; {
		r, _ := utf8.DecodeRuneInString(text[at:])
		prev, size := utf8.DecodeLastRuneInString(text[floor:at])
		joined := unicode.Is(unicode.M, r) || r == 0x200d || prev == 0x200d || r >= 0x1f3fb && r <= 0x1f3ff || r == '\n' && prev == '\r'
		if !joined {
			return at
		}
		at -= size
	}
	return cut
}
