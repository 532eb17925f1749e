package handlers_test

import "testing"

// Namespaces that no path can name, and that do not exist, cause kube-apiserver's errors.
func TestUnspeakableNamespaces(t *testing.T) {
	a := newAPI(t)
	const (
		role = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"q"}}`
		rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/"
	)
	for ns, why := range map[string]string{"%2e": `".": [may not be '.']`, "%2e%2e": `"..": [may not be '..']`, "a%25b": `"a%b": [may not contain '%']`} {
		refused := says{"reason": "InternalError", "message": "Internal error occurred: invalid resource name " + why, "details.causes.0.message": "invalid resource name " + why}
		a.run(exchange{do: "POST " + rbac + ns + "/roles", body: role, code: 500, says: refused},
			exchange{do: "POST " + rbac + ns + "/roles?dryRun=All", body: role, code: 500, says: refused})
	}
	a.run(exchange{do: "PUT " + rbac + "a%25b/roles/q", body: role, code: 500, says: says{"reason": "InternalError"}},
		exchange{do: "GET " + rbac + "a%25b/roles/q", code: 404, says: says{"message": `roles.rbac.authorization.k8s.io "q" not found`}},
		exchange{do: "GET " + rbac + "a%25b/roles", code: 200},
		exchange{do: "POST " + rbac + "nosuch/roles", body: role, code: 404, says: says{"message": `namespaces "nosuch" not found`}},
		exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201})
	for path, key := range map[string]string{rbac + "%2e%2e/roles": "/roles/..", "/api/v1/namespaces/%2e/services": "/services/specs/.",
		"/apis/example.com/v1/namespaces/%2e%2e/widgets": "/example.com/widgets/.."} {
		all, one := says{"message": `invalid key: "` + key + `"`, "reason": "-", "details": "-"}, says{"message": `invalid key: "` + key + `/q"`, "reason": "-", "details": "-"}
		a.run(exchange{do: "GET " + path, code: 500, says: all}, exchange{do: "GET " + path + "?watch=1", code: 500, says: all},
			exchange{do: "DELETE " + path, code: 500, says: all}, exchange{do: "GET " + path + "/q", code: 500, says: one},
			exchange{do: "DELETE " + path + "/q", code: 500, says: one}, exchange{do: "PUT " + path + "/q", body: role, code: 500, says: one},
			exchange{do: "PATCH " + path + "/q", header: asMergePatch, body: `{}`, code: 500, says: one})
	}
}
