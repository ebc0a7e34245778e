package spec

import (
	"fmt"
	"strings"
)

// Nearest returns the candidate most like word, or "" where none is alike: at
// most a third of the letters (two for short words) differ, or word is the end or
// the beginning of the candidate up to a dot ("hostname" for "database.hostname").
func Nearest(word string, candidates []string) string {
	w := strings.ToLower(word)
	best, bestDistance := "", max(2, len(w)/3)+1
	for _, c := range candidates {
		l := strings.ToLower(c)
		d := distance(w, l)
		if d >= bestDistance && w != "" && (strings.HasSuffix(l, "."+w) || strings.HasPrefix(l, w+".")) {
			d = bestDistance - 1
			if best != "" {
				continue
			}
		}
		if d < bestDistance && d < max(len(w), len(l)) {
			best, bestDistance = c, d
		}
	}
	return best
}

// didYouMean is the end of a message: the nearest candidate, or all of a few.
func didYouMean(word string, candidates []string) string {
	if n := Nearest(word, candidates); n != "" {
		return fmt.Sprintf(", did you mean %q?", n)
	}
	if len(candidates) > 0 && len(candidates) <= 12 {
		return "; known are " + strings.Join(candidates, ", ")
	}
	return ""
}

// distance is Levenshtein's, with the swap of neighbours as one step.
func distance(a, b string) int {
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
