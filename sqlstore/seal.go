package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/rowlock/rowlock/resources"
)

// No bytes of an object of an encrypted resource reach the database unless they are sealed: neither its data nor its selectable fields,
// which are bytes of it as well, in objects or in changes. newChangeRow is where objects become rows, and takes both from sealer.seal
// alone. Rows become objects in loader.build, which takes both from sealer.open. What lies between, the memory, has everything in clear.
//
// Not sealed are the key, the revision, the times and the author of a change, as etcd has its keys in clear.
//
// A sealed row has in the column data the text
//
//	k8s:enc:<provider>:<version>:<key>:<base64>
//
// and NULL in the column fields. It is what kube-apiserver would store, with all that follows the name of the key in base64, since the column is text. What was encrypted is
// the data, and after a zero byte the column fields where that would not be NULL. Bound to it, as authenticated data, is the key of
// the object, so that what is sealed for one key does not open under another. (As with kube-apiserver, aescbc and secretbox do not check that.)

// sealedPrefix begins what is sealed. Objects are JSON, and begin with a brace.
const sealedPrefix = "k8s:enc:"

func isSealed(data string) bool { return strings.HasPrefix(data, sealedPrefix) }

// sealer seals and opens the rows of a database.
type sealer struct {
	transformers value.ResourceTransformers // nil: nothing is encrypted, and what is encrypted cannot be read

	mu sync.Mutex
	// slow has, by the key that they are sealed with, when opening rows failed last after it had taken long, and how.
	slow map[string]slowFailure
}

type slowFailure struct {
	at  time.Time
	err error
}

const (
	// openSlowly is how long it takes to open rows in vain when that counts as slow: somebody else was asked.
	openSlowly = 100 * time.Millisecond
	// openAgain is how long after such a failure it is tried again by those who read many rows.
	openAgain = 5 * time.Second
	// openWithin is how long those may wait who open rows while others wait for them.
	openWithin = 500 * time.Millisecond
)

// sealed is an object as a row has it.
type sealed struct {
	data   string
	fields sql.NullString
}

func (s *sealer) transformer(key resources.Key) value.Transformer {
	if s.transformers == nil {
		return identity.NewEncryptCheckTransformer()
	}
	return s.transformers.TransformerForResource(schema.ParseGroupResource(key.Resource))
}

// boundTo is what is bound to the key. Resources and names have no slash.
func boundTo(key resources.Key) value.Context {
	return value.DefaultContext("/registry/" + key.String())
}

// seal returns what the database is to have of an object. Errors: *resources.TransformError.
func (s *sealer) seal(ctx context.Context, key resources.Key, data []byte, f sql.NullString) (sealed, error) {
	clear := sealed{text(data), f}
	if s == nil || s.transformers == nil {
		return clear, nil
	}
	plain := data
	if f.Valid {
		plain = make([]byte, 0, len(data)+1+len(f.String))
		plain = append(append(append(plain, data...), 0), f.String...)
	}
	out, err := s.transformer(key).TransformToStorage(ctx, plain, boundTo(key))
	switch {
	case err != nil:
		return sealed{}, &resources.TransformError{Key: key, Err: err}
	case !bytes.HasPrefix(out, []byte(sealedPrefix)):
		return clear, nil
	}
	return sealed{data: encodeSealed(out)}, nil
}

// sealObject is seal of an object as it is stored.
func (s *sealer) sealObject(ctx context.Context, o *resources.Object) (sealed, error) {
	f, err := encodeFields(o.Fields)
	if err != nil {
		return sealed{}, err
	}
	return s.seal(ctx, o.Key, o.Stored(), f)
}

// encodeSealed makes text of what a transformer returned. What is in base64 begins after the last colon.
func encodeSealed(out []byte) string {
	head := len(sealedPrefix)
	for range 3 { // provider, version, key
		next := bytes.IndexByte(out[head:], ':') + 1
		head += next
		if next == 0 || !printable(out[:head]) {
			head = len(sealedPrefix)
			break
		}
	}
	b := make([]byte, head, head+base64.RawStdEncoding.EncodedLen(len(out)-head))
	copy(b, out)
	return text(base64.RawStdEncoding.AppendEncode(b, out[head:]))
}

func printable(b []byte) bool {
	return bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// headOf is all but what is in base64.
func headOf(data string) string { return data[:strings.LastIndexByte(data, ':')+1] }

// errNotSealed is of text that begins as if it were sealed, and is not.
var errNotSealed = errors.New("what is encrypted in the database is not in base64")

// sealedLeast is how many bytes a provider makes of an object at least: AES-GCM has the fewest of its own, twelve before and sixteen behind.
const sealedLeast = 12 + len("{}") + 16

// checkSealed says what is wrong with a sealed row, as far as it can be seen without keys.
func checkSealed(r *Row) error {
	b, err := base64.RawStdEncoding.DecodeString(r.Data[len(headOf(r.Data)):])
	switch {
	case err != nil:
		return errNotSealed
	case len(b) < sealedLeast:
		return errors.New("what is encrypted in the database is too short to be an object")
	case r.Fields != nil:
		return errors.New("has selectable fields in clear beside what is encrypted")
	}
	return nil
}

// open is the inverse of seal. stale tells that sealing it now would be done in another way. Errors: those of the transformer.
func (s *sealer) open(ctx context.Context, key resources.Key, row sealed) (data []byte, f sql.NullString, stale bool, err error) {
	stored := bytesOf(row.data)
	if isSealed(row.data) {
		head := headOf(row.data)
		stored = append(make([]byte, 0, len(row.data)), head...)
		if stored, err = base64.RawStdEncoding.AppendDecode(stored, bytesOf(row.data[len(head):])); err != nil {
			return nil, f, false, errNotSealed
		}
	}
	plain, stale, err := s.transformer(key).TransformFromStorage(ctx, stored, boundTo(key))
	if err != nil || !isSealed(row.data) {
		return plain, row.fields, stale, err
	}
	if at := bytes.LastIndexByte(plain, 0); at >= 0 {
		return plain[:at:at], sql.NullString{String: string(plain[at+1:]), Valid: true}, stale, nil
	}
	return plain, f, stale, nil
}

// opens tells whether a row has to be opened. Where resources are encrypted, what is not sealed is for a transformer to judge as well.
func (s *sealer) opens(data string) bool {
	return s != nil && (s.transformers != nil || isSealed(data))
}

// openMany is open for those who read many rows, and others may wait for them: where failing has taken long, nobody else is asked for a
// while about rows sealed with the same key. Those that open without asking do, as those of a KMS plugin whose keys are known. failing is
// how long the reader has waited for rows that did not open: many that fail soon take long, too.
func (s *sealer) openMany(ctx context.Context, key resources.Key, row sealed, failing *time.Duration) ([]byte, sql.NullString, error) {
	head := ""
	if isSealed(row.data) {
		head = headOf(row.data)
	}
	begun := time.Now()
	s.mu.Lock()
	failed, ok := s.slow[head]
	s.mu.Unlock()
	known := ok && begun.Sub(failed.at) < openAgain
	if known {
		ctx = asksNobody
	}
	data, f, _, err := s.open(ctx, key, row)
	switch {
	case err == nil:
		return data, f, nil
	case known:
		return nil, sql.NullString{}, failed.err
	}
	if *failing += time.Since(begun); *failing >= openSlowly {
		s.mu.Lock()
		if s.slow == nil {
			s.slow = map[string]slowFailure{}
		}
		s.slow[head] = slowFailure{time.Now(), err}
		s.mu.Unlock()
	}
	return nil, sql.NullString{}, err
}

// asksNobody is the context in which nobody else is asked: it is over.
var asksNobody = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
