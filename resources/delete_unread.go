package resources

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// unreadVerb is the verb that a deletion of an unreadable object requires, besides delete (KEP-3926).
const unreadVerb = "unsafe-delete-ignore-read-errors"

// deleteUnread deletes an object that cannot be decrypted or decoded. Preconditions, finalizers and admission do not apply: there is no
// object to check. The deletion of a readable object is refused.
func (p *Pipeline) deleteUnread(ctx context.Context, r *DeleteRequest, key Key) (Deleted, error) {
	if r.Type.isNamespaces() { // the objects of the namespace would be left without it; kube-apiserver has no way to do so either
		return Deleted{}, apierrors.NewInternalError(
			errors.New("no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential"))
	}
	if err := p.authorizeUnread(ctx, r); err != nil {
		return Deleted{}, err
	}
	for {
		unread, err := p.unread(ctx, r, key)
		if err != nil {
			return Deleted{}, err
		}
		if !dryrun.IsDryRun(r.Options.DryRun) {
			_, err = p.store.Commit(ctx, Write{Op: Delete, Key: key, From: unread.Revision, Unread: unread})
		}
		switch {
		case err == nil:
			return Deleted{Gone: true, Unread: true}, nil
		case !errors.Is(err, ErrNotFound): // else the object has changed and is read again
			return Deleted{}, err
		case ctx.Err() != nil:
			return Deleted{}, ctx.Err()
		}
		time.Sleep(10 * time.Millisecond) // each round is the same for a row that was removed from the database only
	}
}

// unread returns the reason why the object cannot be read. Errors: those of Reader; a Conflict when the object is readable.
func (p *Pipeline) unread(ctx context.Context, r *DeleteRequest, key Key) (*TransformError, error) {
	o, err := p.store.Get(ctx, key, At{Match: MostRecent})
	var unread *TransformError
	if errors.As(err, &unread) && unread.Revision > 0 {
		return unread, nil
	} else if err != nil {
		return nil, err
	}
	if _, err := r.Type.decodeKept(o); err != nil {
		return &TransformError{Key: key, Revision: o.Revision, Err: err, Undecodable: true}, nil
	}
	return nil, apierrors.NewConflict(r.Type.RequestResource(ctx), r.Name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, "+
		"ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage",
		key.InEtcd()))
}

// authorizeUnread requires the permission for unreadVerb, with kube-apiserver's error texts.
func (p *Pipeline) authorizeUnread(ctx context.Context, r *DeleteRequest) error {
	if p.authorizer == nil {
		return nil
	}
	refuse := func(err error) error { return apierrors.NewForbidden(r.Type.RequestResource(ctx), r.Name, err) }
	a, err := p.Attributes(ctx)
	if err != nil {
		return refuse(errors.New("no RequestInfo found in the context"))
	}
	if !a.ResourceRequest || a.Subresource != "" {
		return refuse(errors.New("ignoreStoreReadErrorWithClusterBreakingPotential delete option is not allowed on a subresource or non-resource request"))
	}
	a.Verb, a.Path, a.Name, a.Namespace = unreadVerb, "", r.Name, genericapirequest.NamespaceValue(ctx)
	decision, reason, err := p.authorizer.Authorize(ctx, &a)
	switch {
	case err != nil:
		return refuse(fmt.Errorf("error while checking permission for %q, %w", unreadVerb, err))
	case decision == authorizer.DecisionAllow:
		return nil
	}
	return refuse(fmt.Errorf("not permitted to do %q, reason: %s", unreadVerb, reason))
}
