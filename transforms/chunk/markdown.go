package chunk

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// block is a run of lines of a Markdown text that belong together.
type block struct {
	span
	level int    // of a heading, 1 to 6; 0 = none
	title string // of a heading
	whole bool   // a code fence or table: not cut if it fits a chunk
}

// markdown makes chunks of the text's sections: a heading and what follows it up
// to the next. A heading with nothing below it goes with its first subsection.
// Headings that do not fit into a chunk with what follows stand in the title path
// alone.
func (s *Splitter) markdown(text string) []Chunk {
	var out []Chunk
	type title struct {
		level int
		text  string
	}
	var above []title
	var path []string
	begin, end := -1, -1 // of the chunk being filled
	onlyTitles := false  // it holds headings and nothing else
	emit := func() {
		if begin >= 0 {
			out = withPath(appendStripped(out, text, begin, end), len(out), path)
		}
		begin = -1
	}
	for b := range blocks(text) {
		if b.level > 0 {
			if last := len(above) - 1; !onlyTitles || last < 0 || above[last].level >= b.level {
				emit()
			}
			above = slices.DeleteFunc(above, func(t title) bool { return t.level >= b.level })
			above = append(above, title{b.level, b.title})
			path = make([]string, len(above))
			for i := range above {
				path[i] = above[i].text
			}
			onlyTitles = true
		}
		if begin >= 0 && utf8.RuneCountInString(strings.TrimSpace(text[begin:b.end])) > s.o.Size {
			if onlyTitles && b.level == 0 {
				begin = -1
			}
			emit()
		}
		if begin < 0 {
			begin = b.start
		}
		end = b.end
		onlyTitles = onlyTitles && b.level > 0
		if utf8.RuneCountInString(strings.TrimSpace(text[begin:end])) <= s.o.Size {
			continue
		}
		inside := s.inside
		if b.whole {
			inside = s.lines
		}
		from := len(out)
		out = withPath(inside.recursive(text, span{begin, end, 0}, out), from, path)
		begin = -1
	}
	emit()
	return out
}

func withPath(chunks []Chunk, from int, path []string) []Chunk {
	for i := from; i < len(chunks); i++ {
		chunks[i].TitlePath = path
	}
	return chunks
}

// blocks cuts a Markdown text into headings, fences, tables and paragraphs; every
// line is in one of them or blank.
func blocks(text string) func(yield func(block) bool) {
	return func(yield func(block) bool) {
		lines := scanner{text: text}
		var b block
		open := false
		done := func() bool {
			was := open
			open = false
			return !was || yield(b)
		}
		for lines.next() {
			line := lines.line()
			trimmed := strings.TrimSpace(line)
			level, title := heading(line)
			switch {
			case trimmed == "":
				if !done() {
					return
				}
				continue
			case fenceOf(trimmed) != "":
				if !done() {
					return
				}
				b = block{span: span{start: lines.start}, whole: true}
				for mark := fenceOf(trimmed); lines.next(); {
					if closes(strings.TrimSpace(lines.line()), mark) {
						break
					}
				}
			case level > 0:
				if !done() {
					return
				}
				b = block{span: span{start: lines.start}, level: level, title: title}
			case open && b.end == lines.start && !strings.Contains(strings.TrimSpace(text[b.start:b.end]), "\n") && underline(trimmed) > 0:
				b.level, b.title = underline(trimmed), strings.TrimSpace(text[b.start:b.end])
			case strings.Contains(line, "|") && delimiterRow(lines.peek()):
				if !done() {
					return
				}
				b = block{span: span{start: lines.start}, whole: true}
				for strings.TrimSpace(lines.peek()) != "" && lines.next() {
				}
			case open:
				b.end = lines.end
				continue
			default:
				b, open = block{span: span{start: lines.start, end: lines.end}}, true
				continue
			}
			b.end, open = lines.end, true
			if !done() {
				return
			}
		}
		done()
	}
}

// scanner walks over lines.
type scanner struct {
	text       string
	start, end int // of the line, its end included
}

func (s *scanner) next() bool {
	if s.end == len(s.text) {
		return false
	}
	s.start = s.end
	s.end = s.after(s.start)
	return true
}

func (s *scanner) after(start int) int {
	if i := strings.IndexByte(s.text[start:], '\n'); i >= 0 {
		return start + i + 1
	}
	return len(s.text)
}

func (s *scanner) line() string { return s.text[s.start:s.end] }

// peek is the line after the current one.
func (s *scanner) peek() string { return s.text[s.end:s.after(s.end)] }

// heading reads an ATX heading.
func heading(line string) (level int, title string) {
	body := strings.TrimLeft(line, " ")
	if len(line)-len(body) > 3 {
		return 0, ""
	}
	rest := strings.TrimLeft(body, "#")
	level = len(body) - len(rest)
	if level == 0 || level > 6 || rest != "" && !strings.ContainsAny(rest[:1], " \t\r\n") {
		return 0, ""
	}
	title = strings.TrimSpace(rest)
	if shorter := strings.TrimRight(title, "#"); shorter == "" || strings.HasSuffix(shorter, " ") {
		title = strings.TrimSpace(shorter)
	}
	return level, title
}

// underline is the level of a heading whose second line is line; 0 = it is none.
func underline(line string) int {
	switch {
	case line != "" && strings.Trim(line, "=") == "":
		return 1
	case len(line) > 1 && strings.Trim(line, "-") == "":
		return 2
	}
	return 0
}

// fenceOf is the mark that opens a code fence, such as "```"; "" where line opens none.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, c)
		if n := len(line) - len(rest); n >= 3 && (c == "~" || !strings.Contains(rest, "`")) {
			return line[:n]
		}
	}
	return ""
}

func closes(line, mark string) bool {
	return len(line) >= len(mark) && strings.Trim(line, mark[:1]) == ""
}

// delimiterRow reports whether a line is what stands under the head of a table.
func delimiterRow(line string) bool {
	line = strings.TrimSpace(line)
	return strings.Contains(line, "|") && strings.Contains(line, "-") && strings.Trim(line, "|-: \t") == ""
}
