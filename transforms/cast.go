package transforms

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/bus/event"
	"millrace/schemas/spec"
)

type castConfig struct {
	Cast map[string]string `json:"cast" doc:"Types by path in data: int, float, string, bool or timestamp." spec:"required"`
	common
}

func castKind() Kind {
	return kindOfStep(Kind{
		Name:    "cast",
		Summary: "Changes the type of fields of data.",
		Docs: `Null and what is not there stay as they are; a value that does not fit the type fails the event. Numbers are exact,
however long.

- ` + "`int`" + `: a number without a fraction (also 5.0 and 1e3), text that is one, or a boolean (1 and 0).
- ` + "`float`" + `: a number, which keeps its text, text that is one, or a boolean.
- ` + "`string`" + `: the text of a number or boolean; an object or list becomes its JSON text.
- ` + "`bool`" + `: a boolean, 1 and 0, or text that says true, false, 1 or 0.
- ` + "`timestamp`" + `: becomes text in RFC 3339, UTC. Takes such text, ` + "`2026-01-31 09:30:00`" + ` and ` + "`2026-01-31`" + ` (as UTC), and
  numbers since 1970, in seconds up to 11 digits, then milliseconds up to 14, microseconds up to 17, nanoseconds.`,
		Example: `cast: {data.amount: float, "data.items[*].count": int, data.created_at: timestamp}`,
	}, func(_ *compiler, config castConfig) (step, error) {
		st := &castStep{}
		for _, src := range slices.Sorted(maps.Keys(config.Cast)) {
			p, err := ParsePath(src)
			if err == nil && !p.isData() {
				err = fmt.Errorf("is an attribute: cast changes fields of data, such as data.%s", src)
			}
			if err != nil {
				return nil, at("cast."+src, err)
			}
			name := config.Cast[src]
			to := castTo(name)
			if to == nil {
				types := []string{"int", "float", "string", "bool", "timestamp"}
				msg := fmt.Sprintf("must be one of %s, not %q", strings.Join(types, ", "), name)
				if near := spec.Nearest(name, types); near != "" {
					msg += fmt.Sprintf(" (did you mean %q?)", near)
				}
				return nil, &Error{Field: "cast." + src, Msg: msg}
			}
			st.paths, st.casts = append(st.paths, p), append(st.casts, to)
		}
		st.tree = treeOf(st.paths)
		return st, nil
	})
}

type castStep struct {
	paths []Path
	casts []caster
	tree  *tree
}

func (st *castStep) apply(_ *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	if e.Tombstone() {
		return append(out, e), nil
	}
	if err := needJSON(&e); err != nil {
		return out, err
	}
	r := rewriter{b: e.Data, others: true, leaf: func(dst, raw []byte, place int) ([]byte, bool, error) {
		if raw[0] == 'n' {
			return append(dst, raw...), true, nil
		}
		out, err := st.casts[place](dst, raw)
		if err != nil {
			err = fmt.Errorf("%s: %w", st.paths[place].src, err)
		}
		return out, true, err
	}}
	data, err := r.root(st.tree)
	if err != nil {
		return out, err
	}
	e.Data = data
	return append(out, e), nil
}

// caster takes any JSON value but null.
type caster func(dst, raw []byte) ([]byte, error)

// castTo returns the cast to a type, nil for one that is not known.
func castTo(name string) caster {
	switch name {
	case "int":
		return castInt
	case "float":
		return castFloat
	case "string":
		return castString
	case "bool":
		return castBool
	case "timestamp":
		return castTimestamp
	}
	return nil
}

func cannot(raw []byte, to string) error {
	if len(raw) > 60 {
		raw = append(raw[:57:57], "..."...)
	}
	return fmt.Errorf("%s %s is not %s", strings.TrimPrefix(strings.TrimPrefix(kindOf(raw[0]), "a "), "an "), raw, to)
}

// numberText returns a number's text out of a number, a text or a boolean.
func numberText(raw []byte) (string, bool) {
	switch raw[0] {
	case 't':
		return "1", true
	case 'f':
		return "0", true
	case '"':
		s, err := event.Unquote(raw)
		s = strings.TrimSpace(s)
		if err != nil || s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
			return "", false
		}
		return s, event.CheckJSON([]byte(s)) == nil
	case '{', '[':
		return "", false
	}
	return string(raw), true
}

func castInt(dst, raw []byte) ([]byte, error) {
	text, ok := numberText(raw)
	if !ok {
		return dst, cannot(raw, "a whole number")
	}
	if !strings.ContainsAny(text, ".eE") {
		return append(dst, text...), nil
	}
	n, ok := wholeNumber(text)
	if !ok {
		return dst, cannot(raw, "a whole number")
	}
	return append(dst, n...), nil
}

// wholeNumber writes 5.0 as 5 and 1.5e3 as 1500; numbers of more than 400 digits
// are none.
func wholeNumber(text string) (string, bool) {
	mantissa, exp, _ := strings.Cut(strings.ToLower(text), "e")
	if exp != "" {
		n, err := strconv.Atoi(exp)
		if err != nil || n > 400 || n < -400 || len(mantissa) > 400 {
			r, ok := new(big.Int).SetString(strings.NewReplacer(".", "", "-", "").Replace(mantissa), 10)
			return "0", ok && r.Sign() == 0
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !r.IsInt() {
		return "", false
	}
	return r.Num().String(), true
}

func castFloat(dst, raw []byte) ([]byte, error) {
	text, ok := numberText(raw)
	if !ok {
		return dst, cannot(raw, "a number")
	}
	return append(dst, text...), nil
}

func castString(dst, raw []byte) ([]byte, error) {
	if raw[0] == '"' {
		return append(dst, raw...), nil
	}
	return event.AppendQuoted(dst, string(raw)), nil
}

func castBool(dst, raw []byte) ([]byte, error) {
	text := string(raw)
	if raw[0] == '"' {
		s, err := event.Unquote(raw)
		if err != nil {
			return dst, err
		}
		text = strings.ToLower(strings.TrimSpace(s))
	}
	switch text {
	case "true", "1":
		return append(dst, "true"...), nil
	case "false", "0":
		return append(dst, "false"...), nil
	}
	return dst, cannot(raw, "a boolean")
}

func castTimestamp(dst, raw []byte) ([]byte, error) {
	t, ok := timestamp(raw)
	if !ok || t.Year() < 0 || t.Year() > 9999 {
		return dst, cannot(raw, "a time such as 2026-01-31T09:30:00Z or a number of seconds since 1970")
	}
	dst = append(dst, '"')
	dst = t.AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"'), nil
}

func timestamp(raw []byte) (time.Time, bool) {
	if raw[0] == '"' {
		s, err := event.Unquote(raw)
		if err != nil {
			return time.Time{}, false
		}
		s = strings.TrimSpace(s)
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", time.DateTime, "2006-01-02T15:04:05", time.DateOnly} {
			if t, err := time.Parse(layout, s); err == nil {
				return t.UTC(), true
			}
		}
	}
	text, ok := numberText(raw)
	if !ok || raw[0] == 't' || raw[0] == 'f' {
		return time.Time{}, false
	}
	return sinceEpoch(text)
}

// sinceEpoch reads seconds (with a fraction), milli-, micro- or nanoseconds, told
// apart by how many digits stand before the point.
func sinceEpoch(text string) (time.Time, bool) {
	if strings.ContainsAny(text, "eE") {
		whole, ok := wholeNumber(text)
		if !ok {
			return time.Time{}, false
		}
		text = whole
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := len(strings.TrimPrefix(whole, "-"))
	unit := int64(1)
	switch {
	case digits <= 11:
		unit = 1e9
	case digits <= 14:
		unit = 1e6
	case digits <= 17:
		unit = 1e3
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	perSecond := int64(1e9) / unit
	t := time.Unix(n/perSecond, n%perSecond*unit)
	if fraction != "" {
		part, err := strconv.ParseFloat("0."+fraction, 64)
		if err != nil {
			return time.Time{}, false
		}
		nanos := time.Duration(part*float64(unit) + 0.5)
		if whole[0] == '-' {
			nanos = -nanos
		}
		t = t.Add(nanos)
	}
	return t.UTC(), true
}
