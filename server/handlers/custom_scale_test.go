package handlers_test

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Scale of a custom resource is never sent as protobuf. A request that accepts nothing else is rejected before the object is looked up.
func TestScaleOfCustomResourceIsNoProtobuf(t *testing.T) {
	const protobuf = "application/vnd.kubernetes.protobuf"
	a := newAPI(t)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1,"replicas":2}`), code: 201},
		exchange{do: "POST " + widgets, body: widget("none", `{"size":1}`), code: 201})
	for _, e := range []exchange{
		{do: "GET " + widgets + "/a/scale"},
		{shows: "no object", do: "GET " + widgets + "/b/scale"},
		{shows: "no replicas", do: "GET " + widgets + "/none/scale"},
		{do: "PUT " + widgets + "/a/scale", body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"test"},"spec":{"replicas":4}}`},
		{do: "PATCH " + widgets + "/a/scale", body: `{"spec":{"replicas":4}}`, header: asMergePatch},
	} {
		with := func(accept string) says {
			header := says{"Accept": accept}
			for name, value := range e.header {
				header[name] = value
			}
			return header
		}
		refused, both := e, e
		refused.header, refused.code, refused.answer = with(protobuf), 406, says{"Content-Type": protobuf}
		a.run(refused)
		if both.header = with(protobuf + ", application/json"); e.shows == "" {
			both.code, both.answer, both.says = 200, says{"Content-Type": "application/json"}, says{"kind": "Scale"}
			a.run(both)
		}
	}
	a.run(exchange{shows: "changed by those who were not refused", do: "GET " + widgets + "/a", code: 200, says: says{"spec.replicas": "4", "metadata.generation": "2"}},
		exchange{shows: "metadata alone", do: "GET " + widgets + "/a/scale", header: says{"Accept": protobuf + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}, code: 200,
			answer: says{"Content-Type": protobuf}},
		exchange{shows: "of what is built in", do: "POST /apis/apps/v1/namespaces/test/deployments", code: 201, body: `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
		exchange{do: "GET /apis/apps/v1/namespaces/test/deployments/d/scale", header: says{"Accept": protobuf}, code: 200, answer: says{"Content-Type": protobuf}})
}

// A Scale of a custom resource cannot be applied. The text is kube-apiserver's.
func TestScaleOfCustomResourceIsNotApplied(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1,"replicas":2}`), code: 201},
		exchange{do: "PATCH " + widgets + "/a/scale?fieldManager=m&force=true", header: asApply, code: 500,
			body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":3}}`,
			says: says{"message": "failed to convert new object (/a; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1"}})
}

// The body of an update of a Scale may be protobuf, with or without a kind. The error for an unreadable one is kube-apiserver's.
func TestScaleOfCustomResourceInProtobuf(t *testing.T) {
	a := newAPI(t)
	scale := func(version, kind string, replicas int32) string {
		s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
		s.Name, s.Namespace = "a", "test"
		raw, err := s.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		u := &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}
		data, err := u.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return "k8s\x00" + string(data)
	}
	const path = "PUT " + widgets + "/a/scale"
	header := says{"Content-Type": "application/vnd.kubernetes.protobuf", "Accept": "application/json"}
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1,"replicas":2}`), code: 201},
		exchange{do: path, header: header, body: scale("autoscaling/v1", "Scale", 3), code: 200, says: says{"spec.replicas": "3", "kind": "Scale"}},
		exchange{do: path + "?fieldValidation=Strict", header: header, body: scale("", "", 4), code: 200, says: says{"spec.replicas": "4", "kind": "Scale"}},
		exchange{do: path, header: header, body: scale("autoscaling/v1", "HorizontalPodAutoscaler", 5), code: 400, says: says{"message": noScale}},
		exchange{do: path, header: header, body: scale("apps/v1beta1", "Scale", 5), code: 400, says: says{"message": noScale}},
		exchange{do: path, header: header, body: "k8s\x00rubbish", code: 400, says: says{"message": noScale}},
		exchange{do: path, header: header, body: `{"spec":{"replicas":5}}`, code: 400, says: says{"message": noScale}},
		exchange{do: "PUT " + widgets + "/a/status", header: header, body: scale("autoscaling/v1", "Scale", 5), code: 415},
		exchange{do: "PATCH " + widgets + "/a/scale", header: header, body: scale("autoscaling/v1", "Scale", 5), code: 415},
		exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec.replicas": "4"}})
}
