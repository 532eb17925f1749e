package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volume returns the files of a Pod's volume, by their paths within it. The node reads what they are made of with its own rights, as a kubelet does.
func (n *node) volume(ctx context.Context, p *corev1.Pod, name string) (map[string][]byte, error) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.Name != name:
		case v.EmptyDir != nil:
			return nil, nil
		case v.Secret != nil:
			return n.secret(ctx, p.Namespace, v.Secret.SecretName, v.Secret.Items)
		case v.Projected != nil:
			files := map[string][]byte{}
			for i := range v.Projected.Sources {
				more, err := n.projection(ctx, p, name, i, &v.Projected.Sources[i])
				if err != nil {
					return nil, err
				}
				maps.Copy(files, more)
			}
			return files, nil
		}
	}
	return nil, errNotSupported
}

func (n *node) secret(ctx context.Context, namespace, name string, items []corev1.KeyToPath) (map[string][]byte, error) {
	secret, err := n.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return projected(secret.Data, items)
}

// projection returns the files of one source of a projected volume.
func (n *node) projection(ctx context.Context, p *corev1.Pod, volume string, index int, source *corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case source.Secret != nil:
		return n.secret(ctx, p.Namespace, source.Secret.Name, source.Secret.Items)
	case source.ConfigMap != nil:
		found, err := n.client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, source.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		data := maps.Clone(found.BinaryData)
		if data == nil {
			data = map[string][]byte{}
		}
		for key, text := range found.Data {
			data[key] = []byte(text)
		}
		return projected(data, source.ConfigMap.Items)
	case source.ServiceAccountToken != nil:
		token, err := n.client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(ctx, p.Spec.ServiceAccountName, tokenFor(p, source.ServiceAccountToken), metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		return map[string][]byte{source.ServiceAccountToken.Path: []byte(token.Status.Token)}, nil
	case source.ClusterTrustBundle != nil:
		return n.trustBundle(ctx, source.ClusterTrustBundle)
	case source.PodCertificate != nil && source.PodCertificate.CredentialBundlePath != "":
		key, chain, err := n.certificates.GetPodCertificateCredentialBundle(ctx, p.Namespace, p.Name, string(p.UID), volume, index)
		return map[string][]byte{source.PodCertificate.CredentialBundlePath: slices.Concat(key, chain)}, err
	case source.DownwardAPI != nil:
		files := map[string][]byte{}
		for _, item := range source.DownwardAPI.Items {
			if item.FieldRef == nil || item.FieldRef.FieldPath != "metadata.namespace" {
				return nil, errNotSupported
			}
			files[item.Path] = []byte(p.Namespace)
		}
		return files, nil
	default:
		return nil, errNotSupported
	}
}

// trustBundle returns what a kubelet's own code makes of the trust bundles that a projection asks for.
func (n *node) trustBundle(ctx context.Context, source *corev1.ClusterTrustBundleProjection) (map[string][]byte, error) {
	missing := source.Optional != nil && *source.Optional
	var anchors []byte
	var err error
	if source.Name != nil {
		anchors, err = n.bundles.GetTrustAnchorsByName(ctx, *source.Name, missing)
	} else {
		anchors, err = n.bundles.GetTrustAnchorsBySigner(ctx, *source.SignerName, source.LabelSelector, missing)
	}
	return map[string][]byte{source.Path: anchors}, err
}

// tokenFor asks for a token that is bound to the Pod.
func tokenFor(p *corev1.Pod, source *corev1.ServiceAccountTokenProjection) *authenticationv1.TokenRequest {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	return request
}

// projected returns those of an object's entries that items name; all, if there are none.
func projected(data map[string][]byte, items []corev1.KeyToPath) (map[string][]byte, error) {
	if len(items) == 0 {
		return data, nil
	}
	files := map[string][]byte{}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			return nil, fmt.Errorf("there is no key %q", item.Key)
		}
		files[item.Path] = value
	}
	return files, nil
}
