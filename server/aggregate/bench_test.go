package aggregate_test

import (
	"io"
	"net/http"
	"syscall"
	"testing"
)

// BenchmarkProxy measures the cost of a forwarded request beside one for a type of this server: the difference is the cost of the
// other server and of forwarding. cpu-µs/op is the time of the process, in which all servers run.
func BenchmarkProxy(b *testing.B) {
	f := newFixture(b)
	f.register()
	f.condition("Passed")
	for name, url := range map[string]string{
		"own":     "http://" + f.address + "/api/v1/namespaces/default",
		"proxied": "http://" + f.address + apples + "/apples",
	} {
		b.Run(name, func(b *testing.B) {
			r, err := http.NewRequestWithContext(b.Context(), "GET", url, nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Authorization", "known")
			before := cpu()
			for b.Loop() {
				answer, err := http.DefaultClient.Do(r)
				if err != nil || answer.StatusCode >= 300 {
					b.Fatal(answer, err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			b.ReportMetric(float64(cpu()-before)/1000/float64(b.N), "cpu-µs/op")
		})
	}
	b.Run("direct", func(b *testing.B) {
		client := f.direct()
		before := cpu()
		for b.Loop() {
			answer, err := client.Get(f.ext.URL + apples + "/apples")
			if err != nil || answer.StatusCode >= 300 {
				b.Fatal(answer, err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		b.ReportMetric(float64(cpu()-before)/1000/float64(b.N), "cpu-µs/op")
	})
}

// cpu is what the process has used, in nanoseconds.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it does not fail for the process itself
	return u.Utime.Nano() + u.Stime.Nano()
}
