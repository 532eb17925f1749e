package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/e2e/harness"
)

// sectionCase is one case of the files in testdata/sections, which are the API concepts page as requests. Its steps are sent one after another, in a
// namespace of its own.
type sectionCase struct {
	Case    string `json:"case"`
	Section string `json:"section"` // the heading of the page
	// Differs says why kube-apiserver is not asked: it does not behave as the page says.
	Differs string `json:"differs"`
	Steps   []step `json:"steps"`
}

// step is a request and its expected answer. In all of it, {ns} is the namespace of the case, {id} a name that no other case has, {ff} a byte
// that is no UTF-8, {name} a value that an earlier step has kept, and "REPEAT x n TIMES" n times x.
type step struct {
	Note    string            `json:"note"` // what is special about it
	Send    string            `json:"send"` // method and path
	Headers map[string]string `json:"headers"`
	// Body is JSON by default. A structure is encoded according to its Content-Type, a text is sent as it is.
	Body any `json:"body"`

	Code   int            `json:"code"`
	Answer map[string]any `json:"answer"` // headers: a value, a list of values, or null for none
	// Want are the expected fields of the answer: the named fields of objects (null: absent), all items of lists. A text that begins with ~ is a regular
	// expression. YAML and protobuf are compared as the equivalent JSON.
	Want map[string]any `json:"want"`
	// Status is a whole Status of failure, without the fields that are the same in each.
	Status *wantedStatus `json:"status"`
	// Events are the types of a watch's events, and their fields as in Want. Of an endless stream as many are read.
	Events []map[string]any `json:"events"`
	// Await makes the step be sent again until the answer is the expected one, for work that a server does with a delay.
	Await bool `json:"await"`
	// Soon means that kube-apiserver does with a delay what Rowlock has done when it answered the step before. kube-apiserver is sent the step until it
	// answers as expected; Rowlock is sent it once.
	Soon bool `json:"soon"`
	// Ahead means that Rowlock's answer already shows what kube-apiserver does with a delay. Only the code of kube-apiserver's answer is checked, and
	// the two answers are not compared.
	Ahead bool `json:"ahead"`
	// Unrecorded says why the servers' audits of the step are not compared.
	Unrecorded string            `json:"unrecorded"`
	Text       string            `json:"text"` // of an answer other than an object
	Keep       map[string]string `json:"keep"` // a name for a value of the answer (github.com/tidwall/gjson)
}

// wantedStatus has the fields of a Status of failure that differ between failures.
type wantedStatus struct {
	Reason   string         `json:"reason"`
	Message  string         `json:"message"`
	Details  map[string]any `json:"details"`
	Metadata map[string]any `json:"metadata"`
}

// sectionFlags are the flags of servers for tables that need servers of their own.
var sectionFlags = map[string]struct{ rowlock, kubeAPIServer []string }{
	"compression": {
		rowlock:       []string{"--feature-gates", "WatchListCompression=true"},
		kubeAPIServer: []string{"--feature-gates", "WatchListCompression=true"},
	},
	"dual-stack": {
		rowlock:       []string{"--service-cluster-ip-range", "10.43.0.0/16,fd00:10:43::/112"},
		kubeAPIServer: []string{"--service-cluster-ip-range", "10.43.0.0/16,fd00:10:43::/112"},
	},
	"early-versions": {
		rowlock:       []string{"--runtime-config", "resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true"},
		kubeAPIServer: []string{"--runtime-config", "resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true"},
	},
	"index":   {}, // no other case adds paths meanwhile
	"expired": {rowlock: []string{"--history-age", "5s"}, kubeAPIServer: []string{"--etcd-compaction-interval", "1s"}},
}

// startSectionServers starts the servers for the cases: Rowlock and, if requested, kube-apiserver.
func startSectionServers(t *testing.T, table string) []*sectionServer {
	t.Helper()
	flags := sectionFlags[table]
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte(harness.PeerToken+`,admin,admin,"system:masters"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Neither side runs controllers that would write between two steps.
	args := append([]string{"--token-auth-file", tokens, "--controllers=-namespace-controller,-garbage-collector-controller,-storage-version-migrator-controller"}, flags.rowlock...)
	if os.Getenv("E2E_PEER") != "kube-apiserver" {
		return []*sectionServer{newSectionServer(t, startServer(t, harness.RowlockOptions{Args: args}))}
	}
	logs := []*auditLog{newAuditLog(t), newAuditLog(t)}
	own := newSectionServer(t, startServer(t, harness.RowlockOptions{Args: append(args, logs[0].flags...)}))
	if err := harness.Build(t.Context(), harness.Etcd.Binaries()...); err != nil {
		t.Fatal(err)
	}
	peer, err := harness.StartKubeAPIServer(t.Context(), harness.Etcd, t.TempDir(),
		slices.Concat([]string{"--feature-gates", "WatchListCompression=false"}, // as Rowlock has it by default
			flags.kubeAPIServer, logs[1].flags)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Kill)
	reference := newSectionServer(t, peer)
	reference.reference = true
	own.audit, reference.audit = logs[0], logs[1]
	return []*sectionServer{own, reference}
}

// TestSections sends every case to Rowlock. With E2E_PEER=kube-apiserver (`make compare`) it sends them to kube-apiserver as well, and the two must
// not differ in parts that the tables leave out either, nor in their audits of the requests (sections_audit_test.go).
func TestSections(t *testing.T) {
	shared := startSectionServers(t, "")
	files, err := filepath.Glob("testdata/sections/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []sectionCase
		if err := yaml.UnmarshalStrict(text, &cases); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		table := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(table, func(t *testing.T) {
			servers := shared
			if _, own := sectionFlags[table]; own {
				servers = startSectionServers(t, table)
			}
			for _, c := range cases {
				t.Run(c.Case, func(t *testing.T) {
					t.Parallel()
					c.run(t, servers)
				})
			}
		})
	}
}

// run sends the case to each server and, if there are two, compares their answers.
func (c sectionCase) run(t *testing.T, servers []*sectionServer) {
	namespace := unique("s")
	var first []string
	kept := make([]values, len(servers))
	for i, s := range servers {
		if i > 0 && c.Differs != "" {
			return
		}
		kept[i] = values{"ns": namespace, "id": namespace, "ff": "\xff"}
		answers := c.send(t, s, kept[i])
		if i == 0 {
			first = answers
			continue
		}
		for n := range min(len(first), len(answers)) {
			if diff := cmp.Diff(answers[n], first[n]); !c.Steps[n].Ahead && diff != "" {
				t.Errorf("%s\n%s\n%s differ from %s (-want +got):\n%s", c.Section, c.Steps[n].Send, servers[0].name, s.name, diff)
			}
		}
	}
	if len(servers) > 1 && !t.Failed() {
		c.checkAudits(t, servers, namespace, kept)
	}
}

// send sends the steps to one server. It returns the answers, without the parts that differ between servers.
func (c sectionCase) send(t *testing.T, s *sectionServer, kept values) []string {
	t.Helper()
	s.createNamespace(t, kept["ns"])
	answers := make([]string, 0, len(c.Steps))
	for n, step := range c.Steps {
		headers := map[string]string{"Audit-Id": auditID(kept["ns"], n)}
		maps.Copy(headers, step.Headers)
		step.Headers = headers
		a := s.sendUntil(t, step, kept)
		problems := kept.keep(step.Keep, a)
		if step.Ahead && s.reference {
			step.Answer, step.Want = nil, nil
		}
		problems = append(problems, step.check(a, kept)...)
		if len(problems) > 0 {
			t.Errorf("%s: %q: %s %s\n%s\nthe answer: %d %.3000s", s.name, c.Section, kept.fill(step.Send), step.Note,
				strings.Join(problems, "\n"), a.code, a.text)
		}
		answers = append(answers, a.comparable(kept))
		if t.Failed() {
			break // later steps depend on it
		}
	}
	return answers
}
