package openapi

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/kube-openapi/pkg/common"
)

// discoveryRoute is the operation that returns a discovery document.
func discoveryRoute(root, operation, description string, document any) *route {
	return &route{
		method: http.MethodGet, path: root + "/", operation: operation, description: description,
		consumes: mediaTypes, produces: mediaTypes, result: document,
	}
}

// fixedRoutes are the operations that do not depend on the catalog.
func fixedRoutes() []*routes {
	const versions = "get available API versions"
	single := func(root string, r *route) *routes {
		r.method, r.path = http.MethodGet, root+"/"
		return &routes{root: root, list: []common.Route{r}}
	}
	return []*routes{
		single("/api", discoveryRoute("/api", "getAPIVersions", versions, metav1.APIVersions{})),
		single("/apis", discoveryRoute("/apis", "getAPIVersions", versions, metav1.APIGroupList{})),
		single("/version", &route{
			operation: "getCodeVersion", description: "get the version information for this server",
			consumes: []string{"application/json"}, produces: []string{"application/json"}, result: version.Info{},
		}),
		single("/.well-known/openid-configuration", &route{
			operation:   "getServiceAccountIssuerOpenIDConfiguration",
			description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
			produces:    []string{"application/json"}, result: "",
		}),
		single("/openid/v1/jwks", &route{
			operation:   "getServiceAccountIssuerOpenIDKeyset",
			description: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
			produces:    []string{"application/jwk-set+json"}, result: "",
		}),
	}
}
