package builtin

import (
	"context"
	"crypto/rsa"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/features"
	csr "k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/certificates/clustertrustbundle"
	"k8s.io/kubernetes/pkg/registry/certificates/podcertificaterequest"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
)

func certificatesGroup(p Parts) resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "certificates.k8s.io", Version: "v1"}
	pcr := podcertificaterequest.NewStrategy()
	types := []*resources.Type{define[certificates.CertificateSigningRequest, certificates.CertificateSigningRequestList](v1,
		"certificatesigningrequests", csr.Strategy, short("csr"), selectBy(csr.GetAttrs), status(csr.StatusStrategy), writtenStatus(countIssued), boundedKeys,
		part("approval", csr.ApprovalStrategy, "get", "patch", "update"))}
	types = append(types, gated(features.ClusterTrustBundle,
		define[certificates.ClusterTrustBundle, certificates.ClusterTrustBundleList](v1, "clustertrustbundles", clustertrustbundle.Strategy,
			selectBy(trustBundleAttrs)))...)
	types = append(types, gated(features.PodCertificateRequest,
		define[certificates.PodCertificateRequest, certificates.PodCertificateRequestList](v1, "podcertificaterequests", pcr,
			selectBy(podCertificateRequestAttrs), storedIn(versionOfPodCertificateRequest),
			status(podcertificaterequest.NewStatusStrategy(pcr, p.Authorizer, clock.RealClock{}))))...)
	return single(v1, types...)
}

// mostKeyBits bounds the RSA key of a CertificateSigningRequest, whose signature the strategy verifies: with a key of a megabyte that takes half an
// hour. TLS allows 8192 bits.
const mostKeyBits = 16384

// boundedKeys refuses CertificateSigningRequests with larger keys. Whatever else is wrong with a request, the strategy says.
func boundedKeys(t *resources.Type) {
	t.Permit = func(_ context.Context, obj, _ runtime.Object) error {
		r, ok := obj.(*certificates.CertificateSigningRequest)
		if !ok {
			return nil
		}
		parsed, err := certificates.ParseCSR(r.Spec.Request)
		if err != nil {
			return nil //nolint:nilerr // the strategy says it
		}
		if key, is := parsed.PublicKey.(*rsa.PublicKey); is && key.N.BitLen() > mostKeyBits {
			why := field.Invalid(field.NewPath("spec", "request"), field.OmitValueType{}, fmt.Sprintf("the RSA key must not have more than %d bits", mostKeyBits))
			return apierrors.NewInvalid(certificates.Kind("CertificateSigningRequest"), r.Name, field.ErrorList{why})
		}
		return nil
	}
}

func trustBundleAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	b, ok := obj.(*certificates.ClusterTrustBundle)
	if !ok {
		return nil, nil, fmt.Errorf("%T is not a ClusterTrustBundle", obj)
	}
	return b.Labels, fields.Set{"metadata.name": b.Name, "spec.signerName": b.Spec.SignerName}, nil
}

// versionOfPodCertificateRequest: v1 has no field for the key of a request that is not in PKCS #10, which v1beta1
// allows.
func versionOfPodCertificateRequest(obj runtime.Object) schema.GroupVersion {
	gv := schema.GroupVersion{Group: "certificates.k8s.io", Version: "v1"}
	if r, ok := obj.(*certificates.PodCertificateRequest); ok && len(r.Spec.PKIXPublicKey)+len(r.Spec.ProofOfPossession) > 0 { //nolint:staticcheck // deprecated, and still served in v1beta1
		gv.Version = "v1beta1"
	}
	return gv
}

func podCertificateRequestAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	r, ok := obj.(*certificates.PodCertificateRequest)
	if !ok {
		return nil, nil, fmt.Errorf("%T is not a PodCertificateRequest", obj)
	}
	return r.Labels, fields.Set{
		"metadata.name": r.Name, "metadata.namespace": r.Namespace,
		"spec.signerName": r.Spec.SignerName, "spec.podName": r.Spec.PodName, "spec.nodeName": string(r.Spec.NodeName),
	}, nil
}
