package authz

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
	"k8s.io/apiserver/pkg/util/filesystem"
	kubeauthorizer "k8s.io/kubernetes/pkg/kubeapiserver/authorizer"

	"github.com/rowlock/rowlock/resources/upstream"
)

// fileInterval is how often the file is checked in addition to notifications of changes, as in kube-apiserver.
const fileInterval = time.Minute

// reader reads the configuration of authorizers, and compiles its expressions.
type reader struct {
	once     sync.Once
	compiler authorizationcel.Compiler
	// data is the content that was read last, last the configuration that was applied last.
	data []byte
	last *apiserver.AuthorizationConfiguration
}

// expressions returns the compiler of match conditions. It is created when it is first needed: most servers have no conditions.
func (r *reader) expressions() authorizationcel.Compiler {
	r.once.Do(func() { r.compiler = authorizationcel.NewDefaultCompiler() })
	return r.compiler
}

// open reads a file and validates it by kube-apiserver's rules.
func (r *reader) open(file string) (*apiserver.AuthorizationConfiguration, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r.data = data
	return r.load(data, nil)
}

// load decodes the content of a file and validates it. required are the kinds of authorizers that it has to have.
func (r *reader) load(data []byte, required sets.Set[apiserver.AuthorizerType]) (*apiserver.AuthorizationConfiguration, error) {
	c, err := kubeauthorizer.LoadAndValidateData(data, r.expressions(), required)
	if err != nil {
		return nil, err
	}
	for _, one := range c.Authorizers {
		// Upstream's validation accepts InClusterConfig, but kube-apiserver crashes with it: it reads a kubeconfig in any case.
		if one.Webhook != nil && one.Webhook.ConnectionInfo.KubeConfigFile == nil {
			return nil, fmt.Errorf("authorizer %s: connectionInfo type %s is not supported; use %s", one.Name, one.Webhook.ConnectionInfo.Type,
				apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile)
		}
	}
	return c, nil
}

// CheckFile validates a file with an AuthorizationConfiguration. Errors: those of kube-apiserver, and webhooks without a kubeconfig.
func CheckFile(file string) error {
	_, err := new(reader).open(file)
	return err
}

// follow applies changes of the file until ctx ends. A file that cannot be read or is invalid leaves the present configuration in force.
func (a *Authorizers) follow(ctx context.Context) {
	if a.options.File == "" {
		return
	}
	upstream.CountAuthorizationFiles()
	metrics.RecordAuthorizationConfigLastConfigInfo(a.options.ServerID, string(a.reader.data))
	filesystem.WatchUntil(ctx, fileInterval, a.options.File, a.look, func(err error) {
		a.options.Logger.Warn("the authorization configuration is looked at once a minute only", "file", a.options.File, "error", err)
	})
}

// look reads the file, and applies it when it has changed.
func (a *Authorizers) look() {
	switch changed, err := a.reload(); {
	case err != nil:
		a.options.Logger.Error("the changed authorization configuration is not used", "file", a.options.File, "error", err)
		metrics.RecordAuthorizationConfigAutomaticReloadFailure(a.options.ServerID)
	case changed:
		a.options.Logger.Info("took up the changed authorization configuration", "file", a.options.File)
		metrics.RecordAuthorizationConfigAutomaticReloadSuccess(a.options.ServerID, string(a.reader.data))
	}
}

// reload is called by one goroutine at a time.
func (a *Authorizers) reload() (changed bool, err error) {
	data, err := os.ReadFile(a.options.File)
	if err != nil || bytes.Equal(data, a.reader.data) {
		return false, err
	}
	a.reader.data = data
	c, err := a.reader.load(data, a.kinds.Clone())
	if err != nil {
		return false, err
	}
	if equality.Semantic.DeepEqual(c, a.reader.last) {
		return false, nil
	}
	return true, a.take(c)
}

// take puts the authorizers of a configuration into force.
func (a *Authorizers) take(c *apiserver.AuthorizationConfiguration) error {
	p, err := a.chain(c)
	if err != nil {
		return fmt.Errorf("make the authorizers: %w", err)
	}
	a.reader.last = c
	a.present.Store(p)
	return nil
}
