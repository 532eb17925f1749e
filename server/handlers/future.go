package handlers

import (
	"errors"
	"math"
	"strconv"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/status"
)

// tooLarge returns the error for a read at a future revision: with the requested number, which may exceed any revision, and when to retry. Where
// kube-apiserver reads from etcd itself (direct), and not from its watch cache, it does not say when. Other errors pass unchanged.
func tooLarge(err error, sent string, direct bool) error {
	var future *resources.FutureRevisionError
	if !errors.As(err, &future) {
		return err
	}
	requested := uint64(future.Requested)
	if n, err := strconv.ParseUint(sent, 10, 64); err == nil && n > math.MaxInt64 {
		requested = n
	}
	again := 1
	if direct {
		again = 0
	}
	return status.TooLarge(requested, future.Current, again)
}
