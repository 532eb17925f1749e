package resources

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// UnlessGone returns nil for an error of a write which says that the object of a key does not exist, or is not the one with a uid, or not at a revision, and is
// right; uid and revision may be unknown, empty and 0. A webhook may refuse the write with the same codes; it then has to be tried again.
func UnlessGone(ctx context.Context, r Reader, key Key, uid types.UID, revision int64, err error) error {
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !errors.Is(err, ErrNotFound) {
		return err
	}
	live, unknown := r.Get(ctx, key, At{Match: MostRecent})
	switch {
	case errors.Is(unknown, ErrNotFound):
		return nil
	case unknown != nil:
		return errors.Join(err, unknown)
	case uid != "" && live.UID() != string(uid), revision != 0 && live.Revision != revision:
		return nil
	}
	return err
}
