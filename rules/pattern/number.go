package pattern

import "cmp"

// decimal is a JSON number compared by value, exactly, in any notation and of
// any size: 0.d₁d₂d₃… × 10^exp. Digits begin and end with a digit that is not 0
// and may hold the point; zero has none. It shares the memory of its text, so
// making one allocates nothing.
type decimal struct {
	neg    bool
	digits string
	exp    int64
}

// parseDecimal reads the text of a valid JSON number.
func parseDecimal(s string) decimal {
	var d decimal
	i := 0
	if s[0] == '-' {
		d.neg, i = true, 1
	}
	first, last, point, end := -1, -1, -1, len(s)
	for k := i; k < len(s); k++ {
		c := s[k]
		if c == '.' {
			point = k
		} else if c == 'e' || c == 'E' {
			end = k
			break
		} else if c != '0' {
			if first < 0 {
				first = k
			}
			last = k
		}
	}
	if first < 0 {
		return decimal{} // also -0
	}
	if point < 0 {
		point = end
	}
	d.digits = s[first : last+1]
	d.exp = int64(point - first)
	if first > point {
		d.exp++
	}
	if end < len(s) {
		d.exp += parseExponent(s[end+1:])
	}
	return d
}

// parseExponent stops growing at 10^15, far beyond any number that fits memory.
func parseExponent(s string) int64 {
	neg := s[0] == '-'
	if neg || s[0] == '+' {
		s = s[1:]
	}
	var n int64
	for i := range len(s) {
		if n < 1e15 {
			n = n*10 + int64(s[i]-'0')
		}
	}
	if neg {
		return -n
	}
	return n
}

// compare returns -1, 0 or 1.
func (d decimal) compare(o decimal) int {
	if d.digits == "" || o.digits == "" || d.neg != o.neg {
		return cmp.Compare(d.sign(), o.sign())
	}
	c := d.magnitude(o)
	if d.neg {
		return -c
	}
	return c
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.neg:
		return -1
	}
	return 1
}

func (d decimal) magnitude(o decimal) int {
	if d.exp != o.exp {
		if d.exp < o.exp {
			return -1
		}
		return 1
	}
	a, b := d.digits, o.digits
	if a == b {
		return 0
	}
	for i, j := 0, 0; ; i, j = i+1, j+1 {
		if i < len(a) && a[i] == '.' {
			i++
		}
		if j < len(b) && b[j] == '.' {
			j++
		}
		switch {
		case i == len(a) && j == len(b):
			return 0
		case i == len(a):
			return -1
		case j == len(b):
			return 1
		case a[i] < b[j]:
			return -1
		case a[i] > b[j]:
			return 1
		}
	}
}
