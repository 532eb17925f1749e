package handlers_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/fastpath"
)

const costlyQuantity = `unable to parse quantity's suffix`

// protobufOf is an object in protobuf.
func protobufOf(t *testing.T, obj runtime.Object) string {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(builtin.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	var b bytes.Buffer
	if err := info.Serializer.Encode(obj, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCostlyQuantitiesAreRefused sends quantities that take minutes to compare with zero, in every way that objects are written.
func TestCostlyQuantitiesAreRefused(t *testing.T) {
	const (
		quotas = "/api/v1/namespaces/test/resourcequotas"
		one    = quotas + "/one"
		huge   = `{"spec":{"hard":{"pods":"1e999999999"}}}`
	)
	quota := &corev1.ResourceQuota{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: metav1.ObjectMeta{Name: "p",
		Labels: map[string]string{"commit": "12e34567"}}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1e999999999")}}}
	inProtobuf := says{"Content-Type": runtime.ContentTypeProtobuf}
	for _, paths := range []bool{true, false} {
		t.Cleanup(fastpath.JSONDecode.Turn(paths))
		t.Cleanup(fastpath.BodyKind.Turn(paths))
		a := newAPI(t)
		refused := says{"reason": "BadRequest"}
		a.run(
			exchange{do: "POST " + quotas, body: `{"metadata":{"name":"one"},"spec":{"hard":{"pods":"1e3"}}}`, code: 201},
			exchange{do: "POST " + quotas, body: `{"metadata":{"name":"n"},"spec":{"hard":{"pods":"1e999999999"}}}`, code: 400, says: says{
				"message": `ResourceQuota in version "v1" cannot be handled as a ResourceQuota: ` + costlyQuantity}},
			exchange{do: "POST " + quotas + "?fieldValidation=Ignore", body: `{"metadata":{"name":"n"},"spec":{"hard":{"pods":1e-999999999}}}`, code: 400, says: refused},
			exchange{do: "POST " + quotas, body: `{"metadata":{"name":"n"},"spec":{"hard":{"pods":" 12345678901234567890e0100000 "}}}`, code: 400, says: refused},
			exchange{do: "POST " + quotas, body: `{"metadata":{"name":"n"},"spec":{"hard":{"pods":"` + strings.Repeat("7", 100000) + `"}}}`, code: 400, says: refused},
			exchange{do: "POST " + quotas, header: asYAML, body: "metadata: {name: one}\nspec: {hard: {pods: \"1e9999\\\n  99999\"}}\n", code: 400, says: refused},
			exchange{do: "POST " + quotas, header: inProtobuf, body: protobufOf(t, quota), code: 400, says: refused},
			exchange{do: "PATCH " + one, header: asMergePatch, body: huge, code: 400, says: refused},
			exchange{do: "PATCH " + one, header: asStrategicPatch, body: `{"spec":{"hard":{"pods":"1\u0065999999999"}}}`, code: 400, says: refused},
			exchange{do: "PATCH " + one, header: asJSONPatch, body: `[{"op":"add","path":"/spec/hard/pods","value":"1e999999999"}]`, code: 400, says: refused},
			exchange{do: "PATCH " + one + "?fieldManager=m&force=true", header: asApply, body: `{"apiVersion":"v1","kind":"ResourceQuota",` + huge[1:], code: 400, says: refused},
			exchange{do: "PATCH " + one + "?fieldManager=m&force=true", header: asApply, body: "apiVersion: v1\nkind: ResourceQuota\nspec: {hard: {pods: 1e999999999}}\n",
				code: 400, says: refused},
		)
	}
}

// TestTextsLikeQuantitiesAreTaken sends the same characters where they are no quantities.
func TestTextsLikeQuantitiesAreTaken(t *testing.T) {
	const claims = "/api/v1/namespaces/test/persistentvolumeclaims"
	a := newAPI(t)
	spec := `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1e1000"}}}`
	claim := &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: metav1.ObjectMeta{Name: "p",
		Annotations: map[string]string{"commit": "1e999999999", "e": "2e"}, ResourceVersion: "10000"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}
	const secrets = "/api/v1/namespaces/test/secrets"
	for _, on := range []bool{true, false} {
		t.Cleanup(fastpath.JSONDecode.Turn(on))
		a.run(
			exchange{do: "PATCH " + secrets + "/s?fieldManager=m&dryRun=All", header: asApply, body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"k":"1e123456"}}`,
				code: 201, says: says{"data.k": "1e123456"}},
			exchange{do: "POST " + secrets + "?dryRun=All", body: `{"metadata":{"name":"s"},"data":{"k":"1e123456","l":"ab1e1234"}}`, code: 201, says: says{"data.k": "1e123456"}},
			exchange{do: "POST " + claims + "?dryRun=All", body: `{"metadata":{"name":"n","annotations":{"1e999999999":"1e999999999"},"labels":{"commit":"12e34567"}},` + spec + `}`,
				code: 201, says: says{"metadata.annotations.1e999999999": "1e999999999", "spec.resources.requests.storage": "10e999"}},
			exchange{do: "POST " + claims + "?dryRun=All", header: asYAML, body: "metadata: {name: one, annotations: {a: '1e999999999'}}\n" +
				"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}", code: 201, says: says{"metadata.annotations.a": "1e999999999"}},
			exchange{do: "POST " + claims + "?dryRun=All", header: says{"Content-Type": runtime.ContentTypeProtobuf}, body: protobufOf(t, claim), code: 201,
				says: says{"metadata.annotations.commit": "1e999999999"}},
		)
	}
}

// TestManyElementsAreRefused sends lists whose elements take a hundred times as much memory as text.
func TestManyElementsAreRefused(t *testing.T) {
	const (
		pods = "/api/v1/namespaces/test/pods"
		n    = 150_000
	)
	a := newAPI(t)
	refused := says{"message": "Request entity too large: limit of elements in lists is 100000"}
	open, end := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n"},"spec":{"containers":[`, `]}}`
	empty := open + strings.TrimSuffix(strings.Repeat("{},", n), ",") + end
	message := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	spec := message(2, bytes.Repeat(message(2, nil), n)) // a PodSpec with containers
	inProtobuf := "k8s\x00" + string(append(message(1, append(message(1, []byte("v1")), message(2, []byte("Pod"))...)), message(2, spec)...))
	a.run(
		exchange{shows: "protobuf", do: "POST " + pods, header: says{"Content-Type": runtime.ContentTypeProtobuf}, body: inProtobuf, code: 413, says: refused},
		exchange{shows: "empty ones", do: "POST " + pods, body: empty, code: 413, says: refused},
		exchange{shows: "nulls", do: "POST " + pods, body: open + strings.TrimSuffix(strings.Repeat("null,", n), ",") + end, code: 413, says: refused},
		exchange{shows: "in lists of lists", do: "POST " + pods, body: open + strings.TrimSuffix(strings.Repeat(`{"env":[{},{},{},{}]},`, n/5), ",") + end, code: 413, says: refused},
		exchange{shows: "YAML", do: "POST " + pods, header: asYAML, body: "metadata: {name: one}\nspec:\n  containers:\n" + strings.Repeat("  -\n", n), code: 413, says: refused},
		exchange{shows: "an apply", do: "PATCH " + pods + "/n?fieldManager=m", header: asApply, body: empty, code: 413, says: refused},
		exchange{shows: "commas in strings", do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"n"},"data":{"a":"` + strings.Repeat(`[,`, n) + `"}}`, code: 201},
	)
}
