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

// fileInterval is how often the file is looked at although nothing was heard of it, as kube-apiserver does.
const fileInterval = time.Minute

// reader reads the configuration of authorizers, and compiles what is in it.
type reader struct {
	once     sync.Once
	compiler authorizationcel.Compiler
	// data is what was read last, and last what was taken up.
	data []byte
	last *apiserver.AuthorizationConfiguration
}

// expressions compiles match conditions. It is made when it is first needed: most servers have none.
func (r *reader) expressions() authorizationcel.Compiler {
	r.once.Do(func() { r.compiler = authorizationcel.NewDefaultCompiler() })
	return r.compiler
}

// open reads a file and checks it by kube-apiserver's rules.
func (r *reader) open(file string) (*apiserver.AuthorizationConfiguration, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r.data = data
	return kubeauthorizer.LoadAndValidateData(data, r.expressions(), nil)
}

// CheckFile reads a file with an AuthorizationConfiguration. Errors: those of kube-apiserver.
func CheckFile(file string) error {
	_, err := new(reader).open(file)
	return err
}

// follow takes up changes of the file until ctx ends. One that cannot be read or is not allowed leaves in force what was.
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

// look reads the file, and takes it up when it has changed.
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
	c, err := kubeauthorizer.LoadAndValidateData(data, a.reader.expressions(), sets.New(a.kinds.UnsortedList()...))
	if err != nil {
		return false, err
	}
	if equality.Semantic.DeepEqual(c, a.reader.last) {
		return false, nil
	}
	return true, a.take(c)
}

// take has the authorizers of a configuration decide from now on.
func (a *Authorizers) take(c *apiserver.AuthorizationConfiguration) error {
	p, err := a.chain(c)
	if err != nil {
		return fmt.Errorf("make the authorizers: %w", err)
	}
	a.reader.last = c
	a.present.Store(p)
	return nil
}
