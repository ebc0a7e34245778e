package chunk

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// recursive cuts a span at the first separator that stands in it, joins pieces up
// to the size, and cuts those that are too long with the separators after it.
func (s *Splitter) recursive(text string, within span, out []Chunk) []Chunk {
	return s.cut(text, within, s.seps, out)
}

func (s *Splitter) cut(text string, within span, seps []separator, out []Chunk) []Chunk {
	sep, finer := seps[len(seps)-1], []separator(nil)
	for i, candidate := range seps {
		if candidate.text == "" {
			sep = candidate
			break
		}
		if candidate.in(text[within.start:within.end]) {
			sep, finer = candidate, seps[i+1:]
			break
		}
	}
	if sep.text == "" && s.o.Size > 1 {
		s.windows(text, within, false, func(start, end int) { out = appendStripped(out, text, start, end) })
		return out
	}
	m := merger{s: s, text: text, joiner: sep.joiner, joinerRunes: utf8.RuneCountInString(sep.joiner), out: out}
	for piece := range s.pieces(text, within, sep) {
		if piece.runes < s.o.Size {
			m.add(piece)
			continue
		}
		m.flush()
		if len(finer) == 0 {
			m.out = append(m.out, Chunk{Text: text[piece.start:piece.end], Start: piece.start, End: piece.end})
			continue
		}
		m.out = s.cut(text, piece, finer, m.out)
	}
	m.flush()
	return m.out
}

func (sep *separator) in(text string) bool {
	if sep.re != nil {
		return sep.re.MatchString(text)
	}
	return strings.Contains(text, sep.text)
}

// pieces yields what stands between separators, which go where Keep says. Empty
// pieces are left out.
func (s *Splitter) pieces(text string, within span, sep separator) iter.Seq[span] {
	return func(yield func(span) bool) {
		start := within.start // of the piece
		piece := func(end, next int) bool {
			from := start
			start = next
			return from == end || yield(span{from, end, utf8.RuneCountInString(text[from:end])})
		}
		for from, to := range sep.matches(text, within) {
			ok := true
			switch s.o.Keep {
			case KeepStart:
				ok = piece(from, from)
			case KeepEnd:
				ok = piece(to, to)
			case KeepNone:
				ok = piece(from, to)
			}
			if !ok {
				return
			}
		}
		piece(within.end, within.end)
	}
}

// matches yields where a separator stands in a span.
func (sep *separator) matches(text string, within span) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		part := text[within.start:within.end]
		switch {
		case sep.re != nil:
			for _, m := range sep.re.FindAllStringIndex(part, -1) {
				if !yield(within.start+m[0], within.start+m[1]) {
					return
				}
			}
		case sep.text == "":
			for i := range part {
				if i > 0 && !yield(within.start+i, within.start+i) {
					return
				}
			}
		default:
			for at := 0; ; {
				i := strings.Index(part[at:], sep.text)
				if i < 0 {
					return
				}
				at += i + len(sep.text)
				if !yield(within.start+at-len(sep.text), within.start+at) {
					return
				}
			}
		}
	}
}

// merger joins pieces to chunks. A chunk begins with the last pieces of the one
// before, as many as the overlap has room for.
type merger struct {
	s           *Splitter
	text        string
	joiner      string
	joinerRunes int
	out         []Chunk

	current []span
	total   int // code points of current, joiners included
}

func (m *merger) add(piece span) {
	if m.total+piece.runes+m.gap(0) > m.s.o.Size && len(m.current) > 0 {
		m.emit()
		for m.total > m.s.o.Overlap || m.total > 0 && m.total+piece.runes+m.gap(0) > m.s.o.Size {
			m.total -= m.current[0].runes + m.gap(1)
			m.current = m.current[1:]
		}
	}
	m.total += piece.runes + m.gap(0)
	m.current = append(m.current, piece)
}

// gap is the length of a joiner where there are more than n pieces.
func (m *merger) gap(n int) int {
	if len(m.current) > n {
		return m.joinerRunes
	}
	return 0
}

func (m *merger) emit() {
	first, last := m.current[0], m.current[len(m.current)-1]
	if m.s.o.Keep != KeepNone {
		m.out = appendStripped(m.out, m.text, first.start, last.end)
		return
	}
	parts := make([]string, len(m.current))
	for i, p := range m.current {
		parts[i] = m.text[p.start:p.end]
	}
	joined := strings.Join(parts, m.joiner)
	if joined == m.text[first.start:last.end] {
		m.out = appendStripped(m.out, m.text, first.start, last.end)
	} else if joined = strings.TrimFunc(joined, isSpace); joined != "" {
		m.out = append(m.out, Chunk{Text: joined, Start: first.start, End: last.end})
	}
}

func (m *merger) flush() {
	if len(m.current) > 0 {
		m.emit()
	}
	m.current, m.total = nil, 0
}
