package handlers_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/server"
)

// A patch that cannot be applied is a 500, as in kube-apiserver, but not logged as an error of the server.
func TestMalformedPatchesAreNoErrorsOfTheServer(t *testing.T) {
	var log bytes.Buffer
	a := newAPIWith(t, nil, func(c *server.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	const service = "PATCH /api/v1/namespaces/test/services/a"
	a.run(exchange{do: "POST /api/v1/namespaces/test/services", body: `{"metadata":{"name":"a"},"spec":{"type":"ExternalName","externalName":"example.com","ports":[{"port":80}]}}`, code: 201},
		exchange{do: service + "?fieldManager=m", header: asApply, code: 500,
			body: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"unknown":1}`,
			says: says{"message": "failed to create typed patch object (/a; /v1, Kind=Service): .unknown: field not declared in schema", "reason": "-"}},
		exchange{do: service, header: asStrategicPatch, body: `{"spec":{"ports":[{"name":"x"}]}}`, code: 500,
			says: says{"message": "map: map[name:x] does not contain declared merge key: port", "reason": "-"}},
		exchange{do: service, header: asStrategicPatch, body: `{"spec":{"$patch":"x"}}`, code: 500, says: says{"reason": "-"}},
		exchange{shows: "a conflict stays one", do: service + "?fieldManager=m", header: asApply, code: 409,
			body: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"port":80,"targetPort":81}]}}`})
	if text := log.String(); strings.Count(text, `level=INFO msg="request failed"`) != 3 || strings.Contains(text, "level=ERROR") {
		t.Errorf("the log: %s", text)
	}
}
