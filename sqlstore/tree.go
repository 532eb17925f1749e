package sqlstore

import (
	"github.com/tidwall/btree"

	"github.com/rowlock/rowlock/resources"
)

// tree is the state of one resource type: its objects by path. Objects in it may be packed; objects that the store
// returns are not, except by Kept and to a Commit that expects them. A tree that other goroutines can see is never
// changed; changes are made to an edit, which shares everything that stays the same.
type tree struct {
	objects btree.Map[string, *resources.Object]
	// last is the highest revision at which the type may have changed: the tree is its state at last and at every
	// later revision that is not in a newer tree.
	last int64
	// unreadable is how many objects cannot be decrypted.
	unreadable int
}

// edit returns a tree with the same contents that may be changed. The copy is made through a shallow one because
// btree.Map.Copy marks its receiver, and two edits of one shared tree would race over the mark.
func (t *tree) edit() *tree {
	shared := t.objects
	return &tree{objects: *shared.Copy(), last: t.last, unreadable: t.unreadable}
}

// set puts an object into the tree, or removes it if o is nil.
func (t *tree) set(path string, o *resources.Object) {
	var before *resources.Object
	if o == nil {
		before, _ = t.objects.Delete(path)
	} else {
		before, _ = t.objects.Set(path, o)
	}
	if before.Unreadable() != nil {
		t.unreadable--
	}
	if o.Unreadable() != nil {
		t.unreadable++
	}
}

// sampledObjects is how many objects of a type are measured for all of them: enough to tell a list of kilobytes from
// one of megabytes.
const sampledObjects = 8

// amount returns how much there is. It measures the first objects as they are in memory: packed ones are not unpacked,
// and unreadable ones are not read again.
func (t *tree) amount() resources.Amount {
	a := resources.Amount{Objects: int64(t.objects.Len())}
	var bytes, looked, known int64
	t.objects.Scan(func(_ string, o *resources.Object) bool {
		if o.Unreadable() == nil {
			bytes += int64(o.Length())
			known++
		}
		looked++
		return looked < sampledObjects
	})
	if known > 0 {
		a.AverageBytes = bytes / known
	}
	return a
}

// rank returns how many objects have a path less than the given one.
func (t *tree) rank(path string) int {
	low, high := 0, t.objects.Len()
	for low < high {
		middle := int(uint(low+high) >> 1)
		if at, _, _ := t.objects.GetAt(middle); at < path {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// snapshot is a tree as the resources package sees it.
type snapshot struct {
	tree     *tree
	revision int64
}

var _ resources.Snapshot = snapshot{}

// Revision is the revision of the store.
func (s snapshot) Revision() int64 { return s.revision }

// Get returns the object, or nil.
func (s snapshot) Get(namespace, name string) *resources.Object {
	o, _ := s.tree.objects.Get(resources.Key{Namespace: namespace, Name: name}.Path())
	return unpacked(o)
}

// Ascend yields the objects of a namespace whose path is greater than after.
func (s snapshot) Ascend(namespace, after string, yield func(*resources.Object) bool) {
	first, end := bounds(namespace, after)
	s.tree.objects.Ascend(first, func(path string, o *resources.Object) bool {
		return (end == "" || path < end) && yield(o.Unpacked())
	})
}

// Count returns how many objects Ascend would yield.
func (s snapshot) Count(namespace, after string) int {
	first, end := bounds(namespace, after)
	n := s.tree.objects.Len()
	if end != "" {
		n = s.tree.rank(end)
	}
	if first != "" {
		n -= s.tree.rank(first)
	}
	return max(n, 0)
}

// bounds returns the first path that Ascend may yield, and the one at which it ends ("": none).
func bounds(namespace, after string) (first, end string) {
	if after != "" {
		first = after + "\x00" // the least string that is greater
	}
	if namespace != "" {
		first = max(first, namespace+"/")
		end = namespace + "0" // '0' follows '/'
	}
	return first, end
}
