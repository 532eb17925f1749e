package handlers_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkExcludedWrite measures a write without webhooks, and with a hundred whose matchConditions exclude it.
func BenchmarkExcludedWrite(b *testing.B) {
	for name, more := range map[string]string{"none": "",
		"conditions": `"matchConditions":[{"name":"c","expression":"request.userInfo.username == 'nobody' && object.metadata.name != '%d'"}]`} {
		b.Run(name, func(b *testing.B) {
			a := newAPI(b)
			var hooks []string
			for i := range 100 {
				hooks = append(hooks, fmt.Sprintf(`{"name":"h%d.example.com","clientConfig":{"url":"https://127.0.0.1:1/"},"rules":%s,"sideEffects":"None","admissionReviewVersions":["v1"],%s}`,
					i, ruleFor("", "v1", "configmaps"), fmt.Sprintf(more, i)))
			}
			if more != "" {
				a.run(exchange{do: "POST " + validatingConfigurations, body: webhooks("v", hooks...), code: 201})
			}
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/api/v1/namespaces/test/configmaps?dryRun=All", strings.NewReader(`{"metadata":{"name":"a"},"data":{"a":"b"}}`))
				w := httptest.NewRecorder()
				if a.ServeHTTP(w, r); w.Code != 201 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
