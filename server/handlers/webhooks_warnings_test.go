package handlers_test

import "testing"

// If a webhook adds a duplicate owner reference, it is stored once, and the client gets a warning, with every verb.
func TestWebhooksAddOwnersAgain(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	const (
		maps  = "/api/v1/namespaces/test/configmaps"
		owner = `{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"6a972259-5358-40d0-9a8a-9f6bd3f6d3f1"}`
		owned = `{"metadata":{"name":"a","ownerReferences":[` + owner + `]}}`
	)
	told := says{"Warning": `299 - ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, ` +
		`and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: 6a972259-5358-40d0-9a8a-9f6bd3f6d3f1"`}
	one := says{"metadata.ownerReferences.#": "1", "metadata.ownerReferences.0.name": "o"}
	v.patches("/again", `[{"op":"add","path":"/metadata/ownerReferences/-","value":`+owner+`}]`)
	a.run(exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/again", ruleFor("", "v1", "configmaps"), ""))},
		exchange{do: "POST " + maps, body: owned, code: 201, says: one, answer: told},
		exchange{do: "PATCH " + maps + "/a", header: says{"Content-Type": "application/json-patch+json"}, body: `[]`, code: 200, says: one, answer: told},
		exchange{do: "PUT " + maps + "/a", body: owned, code: 200, says: one, answer: told},
		exchange{do: "DELETE " + mutatingConfigurations + "/m", code: 200},
		exchange{do: "PUT " + maps + "/a", body: owned, code: 200, says: one, answer: says{"Warning": ""}})
}

// Authentication and authorization reviews call no webhooks, so that a broken one does not break everything. A rule that names them causes a
// warning.
func TestWebhooksAreNotForReviews(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	const asked = `{"spec":{"user":"jane","resourceAttributes":{"namespace":"test","verb":"get","resource":"pods"}}}`
	broken := v.webhook("/broken", everything, "")
	v.Close()
	for _, configurations := range []string{mutatingConfigurations, validatingConfigurations} {
		a.run(exchange{do: "POST " + configurations, code: 201, body: webhooks("all", broken)},
			exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"a"}}`, code: 500},
			exchange{do: "POST /apis/authentication.k8s.io/v1/selfsubjectreviews", body: `{}`, code: 201},
			exchange{do: "POST /apis/authentication.k8s.io/v1/tokenreviews", body: `{"spec":{"token":"t"}}`, code: 201},
			exchange{do: "POST /apis/authorization.k8s.io/v1/subjectaccessreviews", body: asked, code: 201},
			exchange{do: "POST /apis/authorization.k8s.io/v1/namespaces/test/localsubjectaccessreviews",
				body: `{"metadata":{"namespace":"test"},` + asked[1:], code: 201},
			exchange{do: "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: `{"spec":{"nonResourceAttributes":{"verb":"get","path":"/"}}}`, code: 201},
			exchange{do: "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body: `{"spec":{"namespace":"test"}}`, code: 201},
			exchange{do: "DELETE " + configurations + "/all", code: 200},
			exchange{do: "POST " + configurations, code: 201, body: webhooks("named", v.webhook("/broken", ruleFor("authentication.k8s.io", "v1", "tokenreviews"), "")),
				answer: says{"Warning": `299 - "webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect"`}},
			exchange{do: "DELETE " + configurations + "/named", code: 200})
	}
}
