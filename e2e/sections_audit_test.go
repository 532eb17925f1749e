package e2e

import (
	"bytes"
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// auditLog is a server's audit of the steps that it was sent, by the ID of each.
type auditLog struct {
	flags []string // the server's flags for it
	path  string

	mu     sync.Mutex // guards the following fields
	read   int64      // bytes of the file already parsed
	events map[string][]map[string]any
}

// newAuditLog configures an audit of everything.
func newAuditLog(t *testing.T) *auditLog {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: RequestResponse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "log", "audit.log")
	return &auditLog{flags: []string{"--audit-policy-file", policy, "--audit-log-path", path}, path: path, events: map[string][]map[string]any{}}
}

// of returns the present events of a step.
func (l *auditLog) of(t *testing.T, id string) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.Open(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, l.read, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	l.read += int64(len(whole))
	for line := range bytes.Lines(whole) {
		if !bytes.Contains(line, []byte(stepID)) {
			continue
		}
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		of := fmt.Sprint(e["auditID"])
		l.events[of] = append(l.events[of], e)
	}
	return l.events[id]
}

// stepID is the prefix of the IDs under which steps are recorded.
const stepID = "step-of-"

func auditID(namespace string, step int) string {
	return fmt.Sprintf("%s%s-%d", stepID, namespace, step)
}

// checkAudits compares the audits of two servers of a case. It leaves out steps that are sent until they are answered as expected, and those that the
// servers answer differently.
func (c sectionCase) checkAudits(t *testing.T, servers []*sectionServer, namespace string, kept []values) {
	t.Helper()
	for n, step := range c.Steps {
		if step.Await || step.Soon || step.Ahead || step.Unrecorded != "" || step.Headers["Audit-Id"] != "" {
			continue
		}
		var stages, events [2]string
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			for i, s := range servers[:2] {
				stages[i], events[i] = recorded(s.audit.of(t, auditID(namespace, n)), kept[i])
			}
			// The answer may arrive before its audit event is written.
			if stages[0] != "" && stages[0] == stages[1] || time.Now().After(end) {
				break
			}
		}
		if stages[1] == "" {
			t.Errorf("%s\n%s\n%s records nothing", c.Section, step.Send, servers[1].name)
		}
		if diff := cmp.Diff(events[1], events[0]); diff != "" {
			t.Errorf("%s\n%s\nwhat %s records differs from %s (-want +got):\n%s", c.Section, step.Send, servers[0].name, servers[1].name, diff)
		}
	}
}

// recorded are the stages of events, and their texts without the parts that differ between servers.
func recorded(events []map[string]any, kept values) (stages, text string) {
	var all strings.Builder
	for _, e := range events {
		stages += fmt.Sprint(e["stage"], " ")
		delete(e, "requestReceivedTimestamp")
		delete(e, "stageTimestamp")
		if notes, ok := e["annotations"].(map[string]any); ok {
			for name := range notes { // latency annotations, which are there where it took long
				if strings.HasPrefix(name, "apiserver.latency.k8s.io/") {
					delete(notes, name)
				}
			}
		}
		data, _ := json.MarshalIndent(e, "", " ") // it came from JSON
		all.Write(data)
		all.WriteByte('\n')
	}
	text = all.String()
	for _, name := range keysByLength(kept) {
		value := kept[name]
		if value == "" || name == "ns" || name == "id" { // these are the same for both
			continue
		}
		if strings.Trim(value, "0123456789") == "" {
			text = strings.ReplaceAll(text, `"`+value+`"`, `"REVISION"`)
			continue
		}
		if len(value) >= 6 { // shorter ones would match by accident
			text = strings.ReplaceAll(strings.ReplaceAll(text, value, "{"+name+"}"), url.QueryEscape(value), "{"+name+"}")
		}
	}
	for _, p := range passing {
		text = p.is.ReplaceAllString(text, p.as)
	}
	return stages, inQuery.ReplaceAllString(text, "${1}VALUE")
}

// inQuery matches the parts of a request's query that differ between servers.
var inQuery = regexp.MustCompile(`((?:resourceVersion|continue)=)[^&" \\]+`)

// keysByLength are the names of values, the longest value first.
func keysByLength(v values) []string {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return stdcmp.Or(len(v[b])-len(v[a]), strings.Compare(a, b)) })
	return names
}
