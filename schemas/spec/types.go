package spec

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// Hidden is what is shown in place of a secret.
const Hidden = "[hidden]"

// Secret is text that is never shown: fmt, encoding/json and log/slog print
// "[hidden]". Reveal gives the text itself.
type Secret string

// String returns "[hidden]", or "" where there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Hidden
}

// Format keeps every verb of package fmt from showing the secret.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalJSON writes "[hidden]", or "" where there is no secret.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// LogValue keeps loggers from showing the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Reveal returns the secret itself, for the one call that needs it.
func (s Secret) Reveal() string { return string(s) }

// Bytes is a size in bytes, written as "64MiB", "10kB" or "1024".
type Bytes int64

// String writes the size in the largest binary unit that divides it.
func (b Bytes) String() string {
	for _, u := range []struct {
		size Bytes
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if b >= u.size && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// ParseBytes reads a size: a number with a unit of B, kB, MB, GB, TB (powers of
// 1000) or KiB, MiB, GiB, TiB (powers of 1024); letters may be of either case.
func ParseBytes(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(text)
	}
	factor, known := map[string]float64{
		"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
		"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	}[strings.ToLower(strings.TrimSpace(text[end:]))]
	n, err := strconv.ParseFloat(text[:end], 64)
	size := n * factor
	if !known || err != nil || size != math.Trunc(size) || size >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size such as \"64MiB\", \"10kB\" or \"1024\"", s)
	}
	return Bytes(size), nil
}

// ParseDuration reads "90s", "72h" and, beyond package time, "40d". Durations are
// not negative.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%q is not a duration such as \"90s\", \"72h\" or \"40d\"", s)
	}
	return v, nil
}

// FromStrings makes a config for this package of a flat one.
func FromStrings(flat map[string]string) map[string]any {
	config := make(map[string]any, len(flat))
	for k, v := range flat {
		config[k] = v
	}
	return config
}
