package embed

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Words calls f for each term of a text that lexical search looks at: words in
// lower case, and of Chinese, Japanese and Korean each two characters that stand
// side by side (one, where it stands alone). Full-width forms count as plain ones.
// Nothing is left out; see Stopword and Stem.
func Words(text string, f func(word string, cjk bool)) {
	for i := 0; i < len(text); i++ {
		if text[i] >= 0x80 {
			text = norm.NFKC.String(text)
			break
		}
	}
	text = strings.ToLower(text)
	start := -1         // of a word
	run, prev := -1, -1 // of CJK characters, and of the last one
	end := func(at int) {
		if start >= 0 {
			f(text[start:at], false)
		}
		if run >= 0 && prev == run {
			f(text[run:at], true)
		}
		start, run, prev = -1, -1, -1
	}
	for i, r := range text {
		switch {
		case ideographic(r):
			if run < 0 {
				end(i)
				run = i
			} else {
				f(text[prev:i+len(string(r))], true)
			}
			prev = i
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && start >= 0:
			if start < 0 {
				end(i)
				start = i
			}
		default:
			end(i)
		}
	}
	end(len(text))
}

// ideographic reports whether words of a script are written without spaces, or,
// as in Korean, with endings that spaces do not part.
func ideographic(r rune) bool {
	return r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r == 'ー')
}

// Stopword reports whether a term is too common to tell texts apart. The list is
// part of lexical-hash-v1: a change needs a new model name.
func Stopword(word string) bool {
	switch word {
	case "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because", "been", "before", "being", "below",
		"between", "both", "but", "by", "can", "could", "did", "do", "does", "doing", "down", "during", "each", "few", "for", "from", "further", "had",
		"has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "itself", "just", "let",
		"me", "more", "most", "my", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other", "our", "out", "over", "own", "please",
		"same", "she", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "through",
		"to", "too", "under", "until", "up", "us", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "why", "will",
		"with", "would", "you", "your", "yours", "什么", "怎么", "么样", "如何", "为何", "哪些", "哪个", "是否", "可以", "能否", "这个", "那个", "一个", "我们", "你们", "他们", "以及", "或者",
		"的是", "怎样", "有没", "没有", "请问", "多少":
		return true
	}
	return false
}

// Stem takes the commonest endings from an English word in lower case, so that
// "copies" and "copy", "indexed" and "indexing" meet. What it gives need be no word.
func Stem(w string) string {
	for i := range len(w) {
		if c := w[i]; c < 'a' || c > 'z' {
			return w
		}
	}
	switch {
	case len(w) > 4 && strings.HasSuffix(w, "ies"):
		w = w[:len(w)-3] + "y"
	case len(w) > 4 && (strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "xes") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "shes")):
		w = w[:len(w)-2]
	case len(w) > 3 && w[len(w)-1] == 's' && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		w = w[:len(w)-1]
	}
	for _, ending := range [...]string{"ing", "ed"} {
		if s, ok := strings.CutSuffix(w, ending); ok && len(s) >= 3 && strings.ContainsAny(s, "aeiouy") {
			if n := len(s); s[n-1] == s[n-2] && !strings.ContainsRune("lsz", rune(s[n-1])) {
				s = s[:n-1] // running
			}
			w = s
			break
		}
	}
	if len(w) > 4 && w[len(w)-1] == 'e' { // store, stored
		w = w[:len(w)-1]
	}
	return w
}
