package handlers_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/sqlstore"
)

// "Retrieving large results sets in chunks".
func TestChunks(t *testing.T) {
	a := newAPI(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"` + name + `","labels":{"vowel":"` + map[bool]string{true: "yes", false: "no"}[strings.Contains("ae", name)] + `"}}}`, code: 201})
	}
	list := "GET " + configMaps
	names := "items.#.metadata.name"
	a.run(
		exchange{do: list + "?limit=2", code: 200, keep: says{"next": "metadata.continue", "rv": "metadata.resourceVersion"},
			says: says{names: `["a","b"]`, "metadata.remainingItemCount": "3"}},
		exchange{do: "DELETE " + configMaps + "/d", code: 200},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"bb"}}`, code: 201},
		exchange{shows: "consistent with the first chunk", do: list + "?limit=2&continue={next}", code: 200, keep: says{"last": "metadata.continue"},
			says: says{names: `["c","d"]`, "metadata.resourceVersion": "{rv}", "metadata.remainingItemCount": "1"}},
		exchange{do: list + "?limit=2&continue={last}", code: 200,
			says: says{names: `["e"]`, "metadata.resourceVersion": "{rv}", "metadata.continue": "-", "metadata.remainingItemCount": "-"}},
		exchange{shows: "without a limit: the rest", do: list + "?continue={next}", code: 200, says: says{names: `["c","d","e"]`}},
		exchange{shows: "a selector: how many remain is not known", do: list + "?limit=1&labelSelector=vowel%3Dyes", code: 200, keep: says{"next": "metadata.continue"},
			says: says{names: `["a"]`, "metadata.remainingItemCount": "-"}},
		exchange{do: list + "?limit=1&labelSelector=vowel%3Dyes&continue={next}", code: 200, says: says{names: `["e"]`, "metadata.continue": "-"}},
		exchange{shows: "over all namespaces", do: "GET /api/v1/namespaces?limit=4", code: 200, keep: says{"next": "metadata.continue"}},
		exchange{do: "GET /api/v1/namespaces?limit=4&continue={next}", code: 200, says: says{names: `["test"]`}},
		exchange{do: "GET /api/v1/configmaps?limit=2", code: 200, keep: says{"next": "metadata.continue"}, says: says{names: `["kube-apiserver-legacy-service-account-token-tracking","a"]`}},
		exchange{do: "GET /api/v1/configmaps?limit=1&continue={next}", code: 200, says: says{names: `["b"]`}},
		exchange{do: list + "?limit=-1", code: 200, says: says{"items.#": "5"}},
		exchange{do: list + "?limit=some", code: 400},
		exchange{do: list + "?continue={next}&resourceVersion={rv}", code: 400, says: says{"message": "specifying resource version is not allowed when using continue"}},
	)
}

// A first chunk that kube-apiserver reads by an index is followed by another one only if an object with the same value of the indexed field is left.
func TestChunksByIndex(t *testing.T) {
	a := newAPI(t)
	const pods, names = "/api/v1/namespaces/test/pods", "items.#.metadata.name"
	for _, pod := range []struct{ name, node, label string }{{"a", "n1", "x"}, {"b", "n2", "x"}, {"c", "n1", "x"}, {"d", "n1", "y"}, {"e", "n2", "x"}} {
		a.run(exchange{do: "POST " + pods, code: 201, keep: says{"rv": "metadata.resourceVersion"}, body: `{"metadata":{"name":"` + pod.name + `","labels":{"l":"` + pod.label +
			`"}},"spec":{"nodeName":"` + pod.node + `","containers":[{"name":"c","image":"i"}]}}`})
	}
	for query, want := range map[string]struct {
		names string
		more  bool
	}{
		"fieldSelector=spec.nodeName%3Dn1&limit=2":                                                        {`["a","c"]`, true},
		"fieldSelector=spec.nodeName%3Dn1&limit=3":                                                        {`["a","c","d"]`, false},
		"fieldSelector=spec.nodeName%3Dn2&limit=1":                                                        {`["b"]`, true},
		"fieldSelector=spec.nodeName%3Dn1&limit=2&labelSelector=l%3Dx":                                    {`["a","c"]`, true}, // labels are no part of the index
		"fieldSelector=spec.nodeName%3Dn1&limit=1&labelSelector=l%3Dy":                                    {`["d"]`, false},
		"fieldSelector=spec.nodeName!%3Dn1&limit=2":                                                       {`["b","e"]`, false}, // nothing is left
		"fieldSelector=spec.nodeName!%3Dn2&limit=3":                                                       {`["a","c","d"]`, true},
		"fieldSelector=status.phase%3DPending&limit=4&labelSelector=!m":                                   {`["a","b","c","d"]`, true},
		"fieldSelector=spec.nodeName%3Dn1&limit=3&resourceVersionMatch=NotOlderThan&resourceVersion={rv}": {`["a","c","d"]`, false},
		"fieldSelector=spec.nodeName%3Dn1&limit=3&resourceVersionMatch=Exact&resourceVersion={rv}":        {`["a","c","d"]`, true},
		"fieldSelector=spec.nodeName%3Dn1&limit=3&resourceVersion={rv}":                                   {`["a","c","d"]`, true},
	} {
		for _, path := range []string{pods, "/api/v1/pods"} {
			list := exchange{do: "GET " + path + "?" + query, code: 200, says: says{names: want.names, "metadata.remainingItemCount": "-"}}
			if !want.more {
				list.says["metadata.continue"] = "-"
			} else {
				list.keep = says{"next": "metadata.continue"}
			}
			if a.run(list); want.more && a.kept["next"] == "" {
				t.Errorf("%s has no continue token", list.do)
			}
			a.kept["next"] = ""
		}
	}
	a.run(exchange{do: "GET " + pods + "?limit=2&fieldSelector=spec.nodeName%3Dn1", code: 200, keep: says{"next": "metadata.continue"}},
		exchange{shows: "a later chunk is read by no index", do: "GET " + pods + "?limit=1&fieldSelector=spec.nodeName%3Dn1&continue={next}", code: 200,
			says: says{names: `["d"]`}, keep: says{"last": "metadata.continue"}},
		exchange{do: "GET " + pods + "?limit=1&fieldSelector=spec.nodeName%3Dn1&continue={last}", code: 200, says: says{names: `[]`, "metadata.continue": "-"}})
}

// Chunks of the objects of one namespace, which a field selector names, follow each other. kube-apiserver loses the namespace between them.
func TestChunksOfSelectedNamespace(t *testing.T) {
	a := newAPI(t)
	for _, namespace := range []string{"aaa", "zzz"} {
		a.run(exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"` + namespace + `"}}`, code: 201})
		for _, name := range []string{"p", "q", "r"} {
			a.run(exchange{do: "POST /api/v1/namespaces/" + namespace + "/configmaps", body: `{"metadata":{"name":"` + name + `"}}`, code: 201})
		}
		list := "GET /api/v1/configmaps?limit=2&fieldSelector=metadata.namespace%3D" + namespace
		a.run(exchange{do: list, code: 200, says: says{"items.#.metadata.name": `["p","q"]`}, keep: says{"next": "metadata.continue"}},
			exchange{do: list + "&continue={next}", code: 200, says: says{"items.#.metadata.name": `["r"]`, "metadata.continue": "-"}})
	}
}

// A list that is older than the history cannot continue consistently, even without writes since. A token for an inconsistent continuation starts a
// new list.
func TestChunksAge(t *testing.T) {
	a := newAPI(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"` + name + `"}}`, code: 201})
	}
	list, names := "GET "+configMaps+"?limit=1", "items.#.metadata.name"
	a.run(exchange{do: list, code: 200, keep: says{"next": "metadata.continue"}})
	a.later.Add(int64(3 * time.Minute))
	a.run(exchange{do: list + "&continue={next}", code: 200, says: says{names: `["b"]`}, keep: says{"last": "metadata.continue"}})
	a.later.Add(int64(3 * time.Minute))
	const old = "The provided continue parameter is too old to display a consistent list result."
	for _, token := range []string{"{next}", "{last}"} {
		w := a.send(exchange{do: list + "&continue=" + token})
		if message := gjson.Get(w.Body.String(), "message").Str; w.Code != 410 || !strings.HasPrefix(message, old) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		a.kept["inconsistent"] = gjson.Get(w.Body.String(), "metadata.continue").Str
	}
	a.run(
		exchange{do: list + "&continue={inconsistent}", code: 200, says: says{names: `["c"]`}, keep: says{"next": "metadata.continue"}},
		exchange{do: list + "&continue={next}", code: 200, says: says{names: `["d"]`, "metadata.continue": "-"}},
	)
	foreign := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":` + gjson.Get(a.send(exchange{do: list}).Body.String(), "metadata.resourceVersion").Str + `,"start":"a\u0000"}`))
	a.run(exchange{shows: "of kube-apiserver: nobody knows when", do: list + "&continue=" + foreign, code: 200, says: says{names: `["b"]`}})
}

// A list does not age before its time, wherever in a second it began.
func TestChunksAgeNoSooner(t *testing.T) {
	a := newAPI(t)
	for _, name := range []string{"a", "b"} {
		a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"` + name + `"}}`, code: 201})
	}
	list := "GET " + configMaps + "?limit=1"
	a.later.Add(int64(600 * time.Millisecond))
	a.run(exchange{do: list, code: 200, keep: says{"next": "metadata.continue"}})
	a.later.Add(int64(sqlstore.DefaultHistoryAge - 100*time.Millisecond))
	a.run(exchange{do: list + "&continue={next}", code: 200, says: says{"items.#.metadata.name": `["b"]`}})
}

// A list ages by the time that has passed on its server. The clock and the uptime of another server do not matter.
func TestChunksOfAnotherServer(t *testing.T) {
	one, other := newAPI(t), newAPI(t)
	other.later.Add(int64(time.Hour))
	for _, a := range []*api{one, other} {
		a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"}}`, code: 201}, exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"b"}}`, code: 201})
	}
	list, names := "GET "+configMaps+"?limit=1", "items.#.metadata.name"
	one.run(exchange{do: list, code: 200, keep: says{"next": "metadata.continue"}})
	other.run(exchange{do: list + "&continue=" + one.kept["next"], code: 200, says: says{names: `["b"]`}})
}

func TestGarbageContinueTokens(t *testing.T) {
	a := newAPI(t)
	for token, message := range map[string]string{
		"!":    "continue key is not valid: illegal base64 data at input byte 0",
		"null": "continue key is not valid: server does not recognize this encoded version ",
		`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`:        "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
		`{"v":"meta.k8s.io/v1","rv":1}`:                    "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
		`{"v":"meta.k8s.io/v1","rv":1,"start":"../other"}`: "continue key is not valid: ../other",
	} {
		if token != "!" {
			token = base64.RawURLEncoding.EncodeToString([]byte(token))
		}
		a.run(exchange{do: "GET " + configMaps + "?limit=1&continue=" + token, code: 400, says: says{"message": "invalid continue token: " + message}})
	}
}
