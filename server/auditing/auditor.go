package auditing

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
)

// Auditor is the audit of a server: what is recorded, and where. It is safe for concurrent use.
type Auditor struct {
	policy  audit.PolicyRuleEvaluator
	backend audit.Backend
	// agent is the User-Agent of what the server writes of itself.
	agent string
	close func()
	// waits: requests wait for a webhook, which is asked again and again for more than a minute when it is dead.
	waits bool
	// overdue are last events of the server's own writes which a back end has had for longer than ownIn.
	overdue atomic.Int32
}

// Open returns the audit that the options ask for; agent is the User-Agent of what the server writes of itself. It is nil when nothing
// is recorded: without a policy, as with kube-apiserver, or without a back end. Close has to be called.
//
// Errors: a file that cannot be read, or has no policy or no configuration of a webhook in it; a log that cannot be written.
func Open(o Options, agent string) (*Auditor, error) {
	if o.PolicyFile == "" {
		if o.Log.Path != "" && o.Log.Path != "-" { // as kube-apiserver, which begins the file all the same
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

// New returns an audit by a policy, into a back end, which it runs and shuts down. Close has to be called.
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

// Close has every event delivered that is waiting, and ends the back ends. It comes after the last request.
func (a *Auditor) Close() {
	if a != nil {
		a.close()
	}
}
