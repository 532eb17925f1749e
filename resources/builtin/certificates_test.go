package builtin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
)

// A PodCertificateRequest of v1beta1 may have a key and its proof of possession in fields that v1 lacks. They are kept, and a request without
// them is stored in v1.
func TestKeysOfPodCertificateRequestsAreKept(t *testing.T) {
	forEachType(t, true, func(t *testing.T, s *resources.Served) {
		if s.Resource != "podcertificaterequests" {
			return
		}
		for _, hub := range []*certificates.PodCertificateRequest{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "old"}, Spec: certificates.PodCertificateRequestSpec{
				MaxExpirationSeconds: ptr.To[int32](3600), PKIXPublicKey: []byte("key"), ProofOfPossession: []byte("proof")}}, //nolint:staticcheck // deprecated, and still served in v1beta1
			{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "new"}, Spec: certificates.PodCertificateRequestSpec{
				MaxExpirationSeconds: ptr.To[int32](3600), StubPKCS10Request: []byte("request")}},
		} {
			draft, err := s.NewDraft(t.Context(), hub.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			o := resources.NewObject(s.KeyOf(hub.Namespace, hub.Name), draft, 7)
			if in := (schema.GroupVersion{Group: s.Group, Version: map[string]string{"old": "v1beta1", "new": "v1"}[hub.Name]}); !s.IsIn(o, in) {
				t.Errorf("%s is not stored in %s: %s", hub.Name, in, o.Data)
			}
			back, err := s.DecodeHub(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(hub.Spec, back.(*certificates.PodCertificateRequest).Spec); diff != "" {
				t.Errorf("%s changed (-before +after):\n%s", hub.Name, diff)
			}
		}
	})
}
