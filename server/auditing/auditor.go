package auditing

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
)

// Auditor is the audit of a server: its policy and its back ends. It is safe for concurrent use.
type Auditor struct {
	policy  audit.PolicyRuleEvaluator
	backend audit.Backend
	// agent is the User-Agent of the server's own writes.
	agent string
	close func()
	// waits: requests wait for a webhook; if that is dead, it is retried for more than a minute.
	waits bool
	// overdue counts the server's own writes whose last event a back end has had for longer than ownIn.
	overdue atomic.Int32
}

// Open returns the audit for the options; agent is the User-Agent of the server's own writes. It returns nil when nothing is recorded:
// without a policy, as in kube-apiserver, or without a back end. The caller has to call Close.
//
// Errors: a file that cannot be read, or has no policy or no configuration of a webhook in it; a log that cannot be written.
func Open(o Options, agent string) (*Auditor, error) {
	if o.PolicyFile == "" {
		if o.Log.Path != "" && o.Log.Path != "-" { // as kube-apiserver, which creates the file nevertheless
			file, err := o.Log.open()
			if err != nil {
				return nil, fmt.Errorf("ensureLogFile: %w", err)
			}
			return nil, file.Close()
		}
		return nil, nil
	}
	rules, err := policy.LoadPolicyFromFile(o.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: %w", err)
	}
	backend, err := o.backend()
	if err != nil || backend == nil {
		return nil, err
	}
	a, err := New(policy.NewPolicyRuleEvaluator(rules), backend, agent)
	if err == nil {
		a.waits = o.Webhook.ConfigFile != "" && o.Webhook.Mode != ModeBatch
	}
	return a, err
}

// New returns an audit with a policy and a back end, which it runs and shuts down. The caller has to call Close.
//
// Errors: those of the back end's Run.
func New(by audit.PolicyRuleEvaluator, to audit.Backend, agent string) (*Auditor, error) {
	stop := make(chan struct{})
	if err := to.Run(stop); err != nil {
		return nil, fmt.Errorf("failed to run the audit backend: %w", err)
	}
	return &Auditor{policy: by, backend: to, agent: agent, close: sync.OnceFunc(func() {
		close(stop)
		to.Shutdown()
	})}, nil
}

// Close delivers every waiting event, and ends the back ends. It is called after the last request.
func (a *Auditor) Close() {
	if a != nil {
		a.close()
	}
}
