package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authn"
)

// A user who may request tokens gets them only for users whom they may impersonate.
func TestTokensForUsers(t *testing.T) {
	h := guarded(t, "RBAC")
	must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "tokens", `{"nonResourceURLs":["/rowlock/tokens"],"verbs":["post","get"]},
		{"apiGroups":[""],"resources":["users"],"resourceNames":["jane"],"verbs":["impersonate"]},{"apiGroups":[""],"resources":["groups"],"resourceNames":["team"],"verbs":["impersonate"]}`))
	must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "desk", "ClusterRole", "tokens", "desk"))
	for _, tc := range []struct {
		who, method, path, body string
		code                    int
		want                    string
	}{
		{"", "POST", server.TokensPath, `{"user":"jane","seconds":60}`, 403, "cannot post path"},
		{"jane", "POST", server.TokensPath, `{"user":"jane","seconds":60}`, 403, "cannot post path"},
		{"jane", "GET", server.TokensPath, ``, 403, "cannot get path"},
		{"jane", "DELETE", server.TokensPath + "/x", ``, 403, "cannot delete path"},
		{"desk", "DELETE", server.TokensPath + "/x", ``, 403, "cannot delete path"},
		{"desk", "POST", server.TokensPath, `{"user":"jane","groups":["team"],"seconds":60}`, 201, `"by":"desk"`},
		{"desk", "POST", server.TokensPath, `{"user":"root","seconds":60}`, 403, `cannot impersonate resource \"users\"`},
		{"desk", "POST", server.TokensPath, `{"user":"jane","groups":["admins"],"seconds":60}`, 403, `cannot impersonate resource \"groups\"`},
		{"desk", "POST", server.TokensPath, `{"user":"jane","groups":["system:masters"],"allowSystemMasters":true,"seconds":60}`, 403, `cannot impersonate resource \"groups\"`},
		{admin, "POST", server.TokensPath, `{"user":"root","groups":["system:masters"],"seconds":60}`, 400, "has to be asked for"},
		{admin, "POST", server.TokensPath, `{"user":"root","groups":["system:masters"],"allowSystemMasters":true,"seconds":60}`, 201, `"by":"admin"`},
		{admin, "POST", server.TokensPath, `{"user":"system:serviceaccount:a:b","seconds":60}`, 400, "is a ServiceAccount"},
		{admin, "POST", server.TokensPath, `{"user":"jane"}`, 400, "at least a second"},
		{admin, "POST", server.TokensPath, `{"user":"jane","seconds":9223372036854775807}`, 400, "at least a second"},
		{admin, "POST", server.TokensPath, `{"user":"jane","seconds":60,"groups":["` + strings.Repeat("x", 70_000) + `"]}`, 400, "too large"},
		{admin, "POST", server.TokensPath, `[]`, 400, "no request for a token"},
		{admin, "PUT", server.TokensPath, `{}`, 405, ""},
		{admin, "GET", server.TokensPath + "/x", ``, 405, ""},
		{admin, "DELETE", server.TokensPath + "/x", ``, 404, `tokens \"x\" not found`},
	} {
		if code, body := send(h, tc.who, tc.method, tc.path, tc.body); code != tc.code || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %s %s %.80s: %d %s", tc.who, tc.method, tc.path, tc.body, code, body)
		}
	}
	_, body := send(h, "desk", "GET", server.TokensPath, "")
	var list server.TokenList
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 2 || strings.Contains(body, "digest") {
		t.Fatalf("%v: listed %s", err, body)
	}
	jane := slices.IndexFunc(list.Items, func(t authn.IssuedToken) bool { return t.User == "jane" })
	if code, body := send(h, admin, "DELETE", server.TokensPath+"/"+list.Items[jane].ID, ""); code != http.StatusOK {
		t.Errorf("revoked: %d %s", code, body)
	}
	if _, body := send(h, admin, "GET", server.TokensPath, ""); strings.Contains(body, "jane") {
		t.Errorf("listed %s", body)
	}
}
