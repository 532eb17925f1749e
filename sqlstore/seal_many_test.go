package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rowlock/rowlock/resources"
)

// Expired objects that cannot be decrypted do not prevent the deletion of others, however many they are.
func TestExpiryBesideUnreadable(t *testing.T) {
	a := "aesgcm: {keys: [" + keyOf("a") + "]}"
	onBothSealed(t, transformers(t, "configmaps", a), func(t *testing.T, on *sealedOn) {
		var writes []resources.Write
		for i := range expireStep + 10 {
			w := secret(t, fmt.Sprint("a", i), "1")
			w.TTL = time.Second
			writes = append(writes, w)
		}
		sealed := mustCommit(t, on.Store, writes...)
		s := on.Reopen(nil)
		plain := createMap(t, "plain")
		plain.Key.Resource, plain.TTL = "others", 2*time.Second
		key := mustCommit(t, s, plain)[0].Key
		on.Later(time.Hour)
		if _, err := s.janitor.expire(); !errors.As(err, new(*resources.TransformError)) {
			t.Errorf("of those that stay: %v", err)
		}
		if o, err := s.Get(t.Context(), key, resources.At{}); !errors.Is(err, resources.ErrNotFound) {
			t.Errorf("%v, %v", o, err)
		}
		s = on.Reopen(transformers(t, "configmaps", a))
		if _, err := s.janitor.expire(); err != nil {
			t.Error(err)
		}
		for _, o := range sealed {
			if _, err := s.Get(t.Context(), o.Key, resources.At{}); !errors.Is(err, resources.ErrNotFound) {
				t.Fatalf("%s: %v", o.Key, err)
			}
		}
	})
}

// slowPlugin opens "known" itself, and calls a plugin for everything else, which fails after a while.
type slowPlugin struct {
	value.Transformer
	takes time.Duration
	asked int
}

func (p *slowPlugin) TransformerForResource(schema.GroupResource) value.Transformer { return p }

func (p *slowPlugin) TransformFromStorage(ctx context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	if string(data) == "k8s:enc:kms:v2:p:known" {
		return []byte(`{"known":true}`), false, nil
	}
	if ctx.Err() == nil {
		p.asked++
		time.Sleep(p.takes)
	}
	return nil, false, errors.New("the plugin is not well")
}

// A read of many rows does not wait for a failing plugin with each of them, whether it fails slowly or fast; rows that
// open without a call are read.
func TestPluginThatFails(t *testing.T) {
	for _, takes := range []time.Duration{openSlowly, openSlowly / 4} {
		p := &slowPlugin{takes: takes}
		l := loader{sealer: &sealer{transformers: p}}
		for i := range 50 {
			key := resources.Key{Resource: "secrets", Name: fmt.Sprint(i)}
			if o := l.build(key, 1, []byte(encodeSealed([]byte("k8s:enc:kms:v2:p:other"))), sql.NullString{}); o.Unreadable() == nil || o.Unreadable().Error() != "the plugin is not well" {
				t.Errorf("%v", o.Unreadable())
			}
			if o := l.build(key, 1, []byte(encodeSealed([]byte("k8s:enc:kms:v2:p:known"))), sql.NullString{}); o.Unreadable() != nil {
				t.Errorf("what is known, after %d: %v", i, o.Unreadable())
			}
		}
		if p.asked > 10 {
			t.Errorf("asked %d times, of which each takes %s", p.asked, takes)
		}
	}
}
