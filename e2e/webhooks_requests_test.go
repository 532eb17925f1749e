package e2e

import "slices"

// The webhooks, by their rules.
var (
	byWild   = []string{"validating/policy-wildcard-resource.kyverno.svc"}                      // all resources, all operations
	byDouble = []string{"validating/double-wildcard.kyverno.svc"}                               // and all subresources
	byScale  = []string{"validating/all-scale.kyverno.svc"}                                     // */scale
	byOthers = []string{"validating/policy-clusterpolicy-different-resource-group.kyverno.svc"} // ConfigMaps, definitions
	byApps   = []string{"validating/policy-different-resource-group.kyverno.svc"}               // ConfigMaps, Deployments
	bySome   = []string{"validating/dyn-op-validate-multiple.kyverno.svc"}                      // CREATE and UPDATE of ConfigMaps, CREATE of */scale
	bySecret = []string{"mutating/dyn-op-mutate-multiple.kyverno.svc"}                          // UPDATE of Secrets, CREATE of */scale
	byPods   = []string{"validating/only-pod.kyverno.svc"}                                      // Pods and their ephemeral containers
	byExec   = []string{"mutating/pod-exec-subresource.kyverno.svc"}                            // CONNECT of pods/exec
	// CREATE and UPDATE of all resources, where the namespace does not have the label admission.gatekeeper.sh/ignore, and is not Gatekeeper's own.
	byMutation = []string{"mutating/mutation.gatekeeper.sh"}
	// The same, and some subresources.
	byValidation = []string{"validating/validation.gatekeeper.sh"}
	// Namespaces, except Gatekeeper's own.
	byIgnoreLabel = []string{"validating/check-ignore-label.gatekeeper.sh"}
	// CREATE of Pods and of kinds whose controllers create Pods, not in kube-system; and with the label prod.
	byImages      = []string{"mutating/ivpol.mutate.kyverno.svc-fail", "validating/ivpol.validate.kyverno.svc-fail"}
	byImagesOfPro = []string{"mutating/ivpol.mutate.kyverno.svc-fail-finegrained-check-signed-images-finegrained",
		"validating/ivpol.validate.kyverno.svc-fail-finegrained-check-signed-images-finegrained"}
	// UPDATE as well.
	byEscalation = []string{"validating/vpol.validate.kyverno.svc-fail-finegrained-disallow-privilege-escalation"}
	// CREATE and UPDATE of all of cert-manager's types and their subresources, where the namespace is not labelled; CREATE of CertificateRequests.
	byCertManager  = []string{"validating/webhook.cert-manager.io"}
	byCertRequests = []string{"mutating/webhook.cert-manager.io"}

	byAlways = slices.Concat(byWild, byDouble)
	byAll    = slices.Concat(byAlways, byMutation, byValidation)
)

const (
	inTeam         = "/api/v1/namespaces/team/"
	inTeamApps     = "/apis/apps/v1/namespaces/team/"
	certsIn        = "/apis/cert-manager.io/v1/namespaces/"
	runnerSpec     = `"spec":{"serviceAccountName":"runner","containers":[{"name":"c","image":"i"}]}`
	deploymentSpec = `"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b","prod":"true"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}`
	certRequest    = `{"apiVersion":"cert-manager.io/v1","kind":"CertificateRequest","metadata":{"name":"r"},"spec":{"request":"eA==","issuerRef":{"name":"i"}}}`
)

func createRunner(namespace string) reviewedRequest {
	return reviewedRequest{send: "POST /api/v1/namespaces/" + namespace + "/serviceaccounts", body: `{"metadata":{"name":"runner"}}`, code: 201,
		want: reviewedBy("CREATE serviceaccounts "+namespace+"/runner", byAll)}
}

// reviewedRequests are sent one after the other.
var reviewedRequests = []reviewedRequest{
	// Namespaces are matched by their own labels.
	{send: "POST /api/v1/namespaces", body: `{"metadata":{"name":"team"}}`, code: 201, want: reviewedBy("CREATE namespaces team/team", byAll, byIgnoreLabel)},
	{send: "POST /api/v1/namespaces", body: `{"metadata":{"name":"gatekeeper-system"}}`, code: 201, want: reviewedBy("CREATE namespaces gatekeeper-system/gatekeeper-system", byAlways)},
	{send: "POST /api/v1/namespaces", body: `{"metadata":{"name":"open","labels":{"admission.gatekeeper.sh/ignore":""}}}`, code: 201,
		want: reviewedBy("CREATE namespaces open/open", byAlways, byIgnoreLabel)},
	{send: "POST /api/v1/namespaces", body: `{"metadata":{"name":"quiet","labels":{"cert-manager.io/disable-validation":"true"}}}`, code: 201,
		want: reviewedBy("CREATE namespaces quiet/quiet", byAll, byIgnoreLabel)},
	{send: "PATCH /api/v1/namespaces/open", body: `{"metadata":{"annotations":{"a":"b"}}}`, code: 200, want: reviewedBy("UPDATE namespaces open/open", byAlways, byIgnoreLabel)},

	// Objects in a namespace are matched by its labels; every way to create and change them.
	{send: "POST " + inTeam + "configmaps?dryRun=All", body: `{"metadata":{"name":"a"}}`, code: 201, want: reviewedBy("CREATE configmaps team/a dry", byAll, byOthers, byApps, bySome)},
	{send: "POST " + inTeam + "configmaps", body: `{"metadata":{"name":"a"}}`, code: 201, want: reviewedBy("CREATE configmaps team/a", byAll, byOthers, byApps, bySome)},
	{send: "PATCH " + inTeam + "configmaps/a", body: `{"data":{"k":"v"}}`, code: 200, want: reviewedBy("UPDATE configmaps team/a", byAll, byOthers, byApps, bySome)},
	{send: "PATCH " + inTeam + "configmaps/b?fieldManager=m", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, code: 201,
		want: reviewedBy("CREATE configmaps team/b", byAll, byOthers, byApps, bySome)},
	{send: "PATCH " + inTeam + "configmaps/b?fieldManager=m", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"k":"v"}}`, code: 200,
		want: reviewedBy("UPDATE configmaps team/b", byAll, byOthers, byApps, bySome)},
	{send: "DELETE " + inTeam + "configmaps?fieldSelector=metadata.name%3Db", code: 200, want: reviewedBy("DELETE configmaps team/", byAlways, byOthers, byApps)},
	{send: "DELETE " + inTeam + "configmaps/a", code: 200, want: reviewedBy("DELETE configmaps team/a", byAlways, byOthers, byApps)},
	{send: "POST /api/v1/namespaces/open/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201, want: reviewedBy("CREATE configmaps open/a", byAlways, byOthers, byApps, bySome)},
	{send: "POST /api/v1/namespaces/gatekeeper-system/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201, want: reviewedBy("CREATE configmaps gatekeeper-system/a", byAlways, byOthers, byApps, bySome)},
	{send: "POST /api/v1/namespaces/kube-system/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201, want: reviewedBy("CREATE configmaps kube-system/a", byAll, byOthers, byApps, bySome)},
	{send: "GET " + inTeam + "configmaps", code: 200},
	{send: "POST " + inTeam + "secrets", body: `{"metadata":{"name":"s"}}`, code: 201, want: reviewedBy("CREATE secrets team/s", byAll)},
	{send: "PATCH " + inTeam + "secrets/s", body: `{"stringData":{"k":"v"}}`, code: 200, want: reviewedBy("UPDATE secrets team/s", byAll, bySecret)},

	// Pods and their subresources.
	createRunner("team"), createRunner("kube-system"),
	{send: "POST " + inTeam + "serviceaccounts/runner/token", body: `{"spec":{}}`, code: 201, want: reviewedBy("CREATE serviceaccounts/token team/runner", byDouble)},
	{send: "POST " + inTeam + "pods", body: `{"metadata":{"name":"p"},` + runnerSpec + `}`, code: 201, want: reviewedBy("CREATE pods team/p", byAll, byImages, byPods)},
	{send: "POST " + inTeam + "pods", body: `{"metadata":{"name":"pro","labels":{"prod":"true"}},` + runnerSpec + `}`, code: 201,
		want: reviewedBy("CREATE pods team/pro", byAll, byImages, byImagesOfPro, byEscalation, byPods)},
	{send: "POST /api/v1/namespaces/kube-system/pods", body: `{"metadata":{"name":"p","labels":{"prod":"true"}},` + runnerSpec + `}`, code: 201,
		want: reviewedBy("CREATE pods kube-system/p", byAll, byPods)},
	{send: "PATCH " + inTeam + "pods/p", body: `{"metadata":{"labels":{"prod":"false"}}}`, code: 200, want: reviewedBy("UPDATE pods team/p", byAll, byPods)},
	{send: "PATCH " + inTeam + "pods/p", body: `{"metadata":{"labels":{"prod":"true"}}}`, code: 200, want: reviewedBy("UPDATE pods team/p", byAll, byEscalation, byPods)},
	{send: "PATCH " + inTeam + "pods/p/status", body: `{"status":{"message":"m"}}`, code: 200, want: reviewedBy("UPDATE pods/status team/p", byDouble)},
	{send: "PATCH " + inTeam + "pods/p/ephemeralcontainers", body: `{"spec":{"ephemeralContainers":[{"name":"e","image":"i","terminationMessagePolicy":"File","imagePullPolicy":"Always"}]}}`, code: 200,
		want: reviewedBy("UPDATE pods/ephemeralcontainers team/p", byAlways, byValidation, byPods)},
	{send: "GET " + inTeam + "pods/p/exec?command=x&stdout=true", want: reviewedBy("CONNECT pods/exec team/p", byDouble, byExec)},
	{send: "POST " + inTeam + "pods/p/binding", body: `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, code: 201, want: reviewedBy("CREATE pods/binding team/p", byDouble, byValidation)},
	{send: "POST " + inTeam + "pods/pro/eviction", body: `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"pro"}}`, code: 201,
		want: reviewedBy("CREATE pods/eviction team/pro", byDouble, byValidation)},
	{send: "DELETE " + inTeam + "pods/p?gracePeriodSeconds=0", code: 200, again: true, want: reviewedBy("DELETE pods team/p", byAlways, byPods)},

	// Kinds whose controllers create Pods.
	{send: "POST " + inTeamApps + "deployments", body: `{"metadata":{"name":"d"},` + deploymentSpec + `}`, code: 201,
		want: reviewedBy("CREATE deployments team/d", byAll, byImages, byImagesOfPro, byEscalation, byApps)},
	{send: "PATCH " + inTeamApps + "deployments/d", body: `{"spec":{"replicas":2}}`, code: 200, want: reviewedBy("UPDATE deployments team/d", byAll, byEscalation, byApps)},
	{send: "PATCH " + inTeamApps + "deployments/d/scale", body: `{"spec":{"replicas":3}}`, code: 200, want: reviewedBy("UPDATE deployments/scale team/d", byDouble, byScale, byValidation)},
	{send: "POST /apis/batch/v1/namespaces/team/cronjobs", body: `{"metadata":{"name":"c"},"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`, code: 201,
		want: reviewedBy("CREATE cronjobs team/c", byAll, byImages)},
	{send: "POST /apis/autoscaling/v1/namespaces/team/horizontalpodautoscalers", body: `{"metadata":{"name":"h"},"spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`, code: 201,
		want: reviewedBy("CREATE horizontalpodautoscalers team/h", byAll)},

	// Custom resources, in namespaces and without one, with their status.
	{send: "POST " + certsIn + "team/certificates", body: `{"apiVersion":"cert-manager.io/v1","kind":"Certificate","metadata":{"name":"c"},"spec":{"secretName":"s","issuerRef":{"name":"i"}}}`, code: 201,
		want: reviewedBy("CREATE certificates team/c", byAll, byCertManager)},
	{send: "PATCH " + certsIn + "team/certificates/c/status", body: `{"status":{"revision":1}}`, code: 200, want: reviewedBy("UPDATE certificates/status team/c", byDouble, byCertManager)},
	{send: "DELETE " + certsIn + "team/certificates/c", code: 200, want: reviewedBy("DELETE certificates team/c", byAlways)},
	{send: "POST " + certsIn + "team/certificaterequests", body: certRequest, code: 201, want: reviewedBy("CREATE certificaterequests team/r", byAll, byCertManager, byCertRequests)},
	{send: "POST " + certsIn + "quiet/certificaterequests", body: certRequest, code: 201, want: reviewedBy("CREATE certificaterequests quiet/r", byAll, byCertRequests)},
	{send: "POST /apis/cert-manager.io/v1/clusterissuers", body: `{"apiVersion":"cert-manager.io/v1","kind":"ClusterIssuer","metadata":{"name":"i"},"spec":{"selfSigned":{}}}`, code: 201,
		want: reviewedBy("CREATE clusterissuers /i", byAll, byCertManager)},
	{send: "PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/issuers.cert-manager.io", body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200,
		want: reviewedBy("UPDATE customresourcedefinitions /issuers.cert-manager.io", byAll, byOthers)},

	// Requests that no webhook is ever called for.
	{send: "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: `{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`, code: 201},
	{send: "POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", body: `{"metadata":{"name":"none"}}`, code: 201},
	{send: "DELETE /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/none", code: 200},
	{send: "POST /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", body: `{"metadata":{"name":"none"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["events"]}]},"validations":[{"expression":"true"}]}}`, code: 201},
	{send: "DELETE /api/v1/namespaces/open", code: 200, want: reviewedBy("DELETE namespaces open/open", byAlways)},
}
