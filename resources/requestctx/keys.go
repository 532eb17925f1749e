package requestctx

import (
	"context"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
)

// The keys under which upstream's packages keep their values in a context. Their types are unexported, so keyOf calls upstream's accessor
// and notes the key that it looks up. A test compares what both ways set.
var (
	userKey      = keyOf(func(ctx context.Context) { request.UserFrom(ctx) })
	infoKey      = keyOf(func(ctx context.Context) { request.RequestInfoFrom(ctx) })
	namespaceKey = keyOf(func(ctx context.Context) { request.NamespaceFrom(ctx) })
	audiencesKey = keyOf(func(ctx context.Context) { authenticator.AudiencesFrom(ctx) })
	warningsKey  = keyOf(func(ctx context.Context) { warning.AddWarning(ctx, "", "") })
	trackersKey  = keyOf(func(ctx context.Context) { request.LatencyTrackersFrom(ctx) })
	receivedKey  = keyOf(func(ctx context.Context) { request.ReceivedTimestampFrom(ctx) })
	auditKey     = keyOf(func(ctx context.Context) { audit.AuditContextFrom(ctx) })
)

// asked notes the key that is looked up in it.
type asked struct {
	context.Context
	key any
}

func (a *asked) Value(key any) any {
	a.key = key
	return nil
}

func keyOf(ask func(context.Context)) any {
	a := &asked{Context: context.Background()}
	ask(a)
	return a.key
}

// WithUser is request.WithUser, in place.
func WithUser(ctx context.Context, who user.Info) context.Context { return Set(ctx, userKey, who) }

// WithRequestInfo is request.WithRequestInfo, in place.
func WithRequestInfo(ctx context.Context, info *request.RequestInfo) context.Context {
	return Set(ctx, infoKey, info)
}

// WithNamespace is request.WithNamespace, in place.
func WithNamespace(ctx context.Context, namespace string) context.Context {
	return Set(ctx, namespaceKey, namespace)
}

// WithAudiences is authenticator.WithAudiences, in place.
func WithAudiences(ctx context.Context, audiences authenticator.Audiences) context.Context {
	return Set(ctx, audiencesKey, audiences)
}

// WithWarnings is warning.WithWarningRecorder, in place.
func WithWarnings(ctx context.Context, r warning.Recorder) context.Context {
	return Set(ctx, warningsKey, r)
}

// WithAuditContext sets the value that audit.AuditContextFrom finds, in place.
func WithAuditContext(ctx context.Context, a *audit.AuditContext) context.Context {
	return Set(ctx, auditKey, a)
}
