package api

import (
	"context"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"millrace/api/rest"
)

// metrics exports what others count: it is the only place that knows Prometheus.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	registry *prometheus.Registry
}

func newMetrics(o *Options, held func() float64) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millrace_http_requests_total", Help: "Requests answered, by route and status.",
		}, []string{"method", "route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "millrace_http_request_seconds", Help: "How long answers took, streams and waits included.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60},
		}, []string{"method", "route"}),
		registry: prometheus.NewRegistry(),
	}
	all := []prometheus.Collector{
		m.requests, m.seconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "millrace_http_body_bytes", Help: "Bytes of request bodies held now.",
		}, held),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newGroupCollector(o.Client, o.Logger),
	}
	if o.Tasks != nil {
		all = append(all, newTaskCollector(o.Tasks))
	}
	for prefix, stats := range o.Stats {
		all = append(all, statsCollector{prefix: "millrace_" + prefix, stats: stats})
	}
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) observe(route rest.Route, status int, took time.Duration) {
	m.requests.WithLabelValues(route.Method, route.Path, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route.Method, route.Path).Observe(took.Seconds())
}

func (m *metrics) serve(_ context.Context, r *rest.Request) (rest.Answer, error) {
	// promhttp chooses the format by the request's headers; its answer is small
	// enough to be held.
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(rec, r.HTTP)
	return rest.Answer{Status: rec.Code, Raw: rec.Body.Bytes(), Type: rec.Header().Get("Content-Type")}, nil
}

// statsCollector exports the numbers of a Stats value: field LogBytes of the
// value under prefix millrace_bus is millrace_bus_log_bytes.
type statsCollector struct {
	prefix string
	stats  func() any
}

// Describe says nothing: the metrics are not known before they are read.
func (statsCollector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the Stats value.
func (c statsCollector) Collect(out chan<- prometheus.Metric) {
	emit(out, c.prefix, reflect.ValueOf(c.stats()), nil, nil)
}

// emit walks structs, pointers and maps (whose keys become the label "name").
func emit(out chan<- prometheus.Metric, name string, v reflect.Value, labels, values []string) {
	number := func(f float64) {
		desc := prometheus.NewDesc(name, "From the Stats of its package.", labels, nil)
		if m, err := prometheus.NewConstMetric(desc, prometheus.UntypedValue, f, values...); err == nil {
			out <- m
		}
	}
	if d, ok := reflect.TypeAssert[time.Duration](v); ok {
		name += "_seconds"
		number(d.Seconds())
		return
	}
	switch {
	case v.CanInt():
		number(float64(v.Int()))
	case v.CanUint():
		number(float64(v.Uint()))
	case v.CanFloat():
		number(v.Float())
	case v.Kind() == reflect.Pointer && !v.IsNil():
		emit(out, name, v.Elem(), labels, values)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				emit(out, name+"_"+snake(f.Name), v.Field(i), labels, values)
			}
		}
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String && len(labels) == 0:
		for it := v.MapRange(); it.Next(); {
			emit(out, name, it.Value(), []string{"name"}, []string{it.Key().String()})
		}
	}
}

// snake writes LogBytes as log_bytes and HTTPCalls as http_calls.
func snake(s string) string {
	var b strings.Builder
	for i, c := range s {
		upper := func(at int) bool { return at < len(s) && unicode.IsUpper(rune(s[at])) }
		if upper(i) && i > 0 && (!upper(i-1) || i+1 < len(s) && !upper(i+1)) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
