package controllers_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/rbac"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// Background deletion removes the owner at once, then its dependents, and then theirs.
func TestBackground(t *testing.T) {
	c := newCluster(t)
	c.start()
	owner := c.thing("owner")
	child := c.thing("child", ownedBy(owner))
	grandchild := c.thing("grandchild", ownedBy(child))
	other := c.thing("other", ownedBy(c.thing("other-owner")))
	c.stays(child, grandchild)
	c.delete(owner, background)
	c.gone(owner, child, grandchild)
	c.stays(other)
}

// An owner that was deleted while no garbage collector ran is noticed at the start.
func TestOwnerGoneBefore(t *testing.T) {
	c := newCluster(t)
	owner := c.thing("owner")
	child := c.thing("child", ownedBy(owner))
	c.delete(owner, background)
	c.start()
	c.gone(child)
}

// An object with several owners stays until the last is gone, and loses the references to those that are gone.
func TestSecondOwnerKeeps(t *testing.T) {
	c := newCluster(t)
	c.start()
	one, two := c.thing("one"), c.thing("two")
	child := c.thing("child", ownedBy(one, two))
	c.delete(one, background)
	c.until("only the second owner", child.Key, func(o *resources.Object) bool {
		return cmp.Equal(ownersIn(o), []string{"two"})
	})
	c.stays(child)
	c.delete(two, background)
	c.gone(child)
}

func ownersIn(o *resources.Object) []string {
	names := []string{}
	for _, name := range gjson.GetBytes(o.Data, "metadata.ownerReferences.#.name").Array() {
		names = append(names, name.Str)
	}
	return names
}

// An owner that does not exist when an object refers to it counts as deleted. So does one of the same name with another uid.
func TestAbsentOwner(t *testing.T) {
	c := newCluster(t)
	c.start()
	owner := c.thing("owner")
	another := refTo(owner)
	another.UID = "another"
	c.gone(c.thing("by-name", func(m *core.ConfigMap) { m.OwnerReferences = []metav1.OwnerReference{another} }))
	late := c.thing("late")
	c.edit(late, func(m metav1.Object) { m.SetOwnerReferences([]metav1.OwnerReference{another}) })
	c.gone(late)
	c.stays(owner)
}

// An owner may be cluster-scoped, also of a namespaced dependent.
func TestClusterScopedOwner(t *testing.T) {
	c := newCluster(t)
	c.start()
	role := c.create("clusterroles.rbac.authorization.k8s.io", &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "owner"}})
	child := c.create("clusterroles.rbac.authorization.k8s.io", &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "child",
		OwnerReferences: []metav1.OwnerReference{refTo(role)}}})
	inside := c.thing("child", ownedBy(role))
	c.stays(child, inside)
	c.delete(role, background)
	c.gone(child, inside)
}

// Owners in other namespaces: a namespaced dependent finds no owner in its own namespace, and is deleted. The reference
// of a cluster-scoped object to a namespaced owner is ignored. An Event reports both.
func TestOwnerInOtherNamespace(t *testing.T) {
	c := newCluster(t)
	c.start()
	owner := c.thing("owner")
	role := c.create("clusterroles.rbac.authorization.k8s.io", &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role",
		OwnerReferences: []metav1.OwnerReference{refTo(owner)}}})
	child := c.thing("child", ownedBy(owner), in("default"))
	c.gone(child)
	told := map[string]string{}
	for len(told) < 2 {
		c.untilEvent(func(e gjson.Result) {
			told[e.Get("involvedObject.name").Str] = e.Get("message").Str
			if by := e.Get("metadata.managedFields.0.manager").Str; by != "kube-controller-manager" {
				t.Errorf("the field manager of an Event is %q", by)
			}
		})
	}
	want := map[string]string{
		"role":  fmt.Sprintf(`ownerRef [v1/ConfigMap, namespace: , name: owner, uid: %s] does not exist in namespace ""`, uidOf(owner)),
		"child": fmt.Sprintf(`ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: %s] does not exist in namespace "default"`, uidOf(owner)),
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	c.delete(owner, background)
	c.gone(owner)
	c.stays(role)
}

// untilEvent waits for a change of Events, unless there are some, and shows them all.
func (c *cluster) untilEvent(show func(gjson.Result)) {
	c.Helper()
	s, err := c.store.Snapshot(c.ctx, "events", resources.At{Match: resources.MostRecent})
	if err != nil {
		c.Fatal(err)
	}
	n := 0
	s.Ascend("", "", func(o *resources.Object) bool {
		n++
		show(gjson.ParseBytes(o.Data))
		return true
	})
	w, err := c.store.Watch(c.ctx, resources.WatchOptions{Resource: "events", After: s.Revision()})
	if err != nil {
		c.Fatal(err)
	}
	defer w.Close()
	if n > 1 {
		return
	}
	select {
	case <-w.Ready():
	case <-c.ctx.Done():
		c.Fatal("no event came")
	}
}

// An object whose owner has an unknown kind is left alone until the kind is known.
func TestUnknownKind(t *testing.T) {
	c := newCluster(t)
	var roles resources.GroupSpec
	for _, g := range builtin.Groups() {
		if g.Name == "rbac.authorization.k8s.io" {
			roles = g
		}
	}
	c.registry.RemoveGroup(roles.Name)
	c.start()
	child := c.thing("child", func(m *core.ConfigMap) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "x", UID: "x"}}
	})
	virtual := c.thing("virtual", func(m *core.ConfigMap) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview", Name: "x", UID: "x"}}
	})
	c.stays(child, virtual)
	c.registry.SetGroup(roles)
	c.gone(child)
	c.stays(virtual)
}

// The kind of an owner may be written in lower case.
func TestOwnerInLowerCase(t *testing.T) {
	c := newCluster(t)
	c.start()
	lower := func(m *core.ConfigMap) { m.OwnerReferences[0].Kind = "configmap" }
	owner := c.thing("owner")
	child := c.thing("child", ownedBy(owner), lower)
	orphaned := c.thing("orphaned", ownedBy(owner), lower, func(m *core.ConfigMap) { m.OwnerReferences[0].UID = "other" })
	c.gone(orphaned)
	c.stays(child)
	c.delete(owner, background)
	c.gone(child)
}

// Foreground deletion keeps the owner, marked as deleted, until the dependents that block it are gone, and theirs before.
func TestForeground(t *testing.T) {
	c := newCluster(t)
	c.start()
	owner := c.thing("owner")
	child := c.thing("child", blocking(owner))
	grandchild := c.thing("grandchild", blocking(child), withFinalizer("example.com/keep"))
	free := c.thing("free", ownedBy(owner), withFinalizer("example.com/keep"))
	c.delete(owner, foreground)
	c.until("its deletion", grandchild.Key, isDeleting)
	c.until("its deletion", free.Key, isDeleting)
	c.settle()
	if c.get(owner.Key) == nil || c.get(child.Key) == nil {
		t.Fatal("who waits for dependents is gone before them")
	}
	c.edit(grandchild, withoutFinalizers)
	c.gone(owner)
	want := []string{"grandchild", "child", "owner"}
	if diff := cmp.Diff(want, slices.DeleteFunc(c.ends("configmaps", owner.Revision), func(n string) bool { return n == "canary" })); diff != "" {
		t.Error(diff)
	}
	c.edit(free, withoutFinalizers)
	c.gone(free)
}

func isDeleting(o *resources.Object) bool {
	return o == nil || gjson.GetBytes(o.Data, "metadata.deletionTimestamp").Exists()
}

// A dependent that stops blocking, or no longer refers to the owner, releases it.
func TestForegroundUnblocked(t *testing.T) {
	for name, change := range map[string]func(metav1.Object){
		"no longer blocks": func(m metav1.Object) {
			refs := m.GetOwnerReferences()
			refs[0].BlockOwnerDeletion = nil
			m.SetOwnerReferences(refs)
		},
		"no longer refers": func(m metav1.Object) { m.SetOwnerReferences(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.start()
			owner := c.thing("owner")
			child := c.thing("child", blocking(owner), withFinalizer("example.com/keep"))
			c.delete(owner, foreground)
			c.until("its deletion", child.Key, isDeleting)
			c.edit(child, change)
			c.gone(owner)
		})
	}
}

// A dependent with another owner that stays is not deleted, and does not block the deleted one.
func TestForegroundOfOneOwner(t *testing.T) {
	c := newCluster(t)
	c.start()
	one, two := c.thing("one"), c.thing("two")
	child := c.thing("child", blocking(one, two))
	c.delete(one, foreground)
	c.gone(one)
	c.stays(child)
	if diff := cmp.Diff([]string{"two"}, ownersIn(c.get(child.Key))); diff != "" {
		t.Error(diff)
	}
}

// Objects that own each other in a circle do not wait for each other for ever.
func TestForegroundCircle(t *testing.T) {
	c := newCluster(t)
	c.start()
	a := c.thing("a")
	b := c.thing("b", blocking(a))
	d := c.thing("d", blocking(b))
	c.edit(a, func(m metav1.Object) {
		ref := refTo(d)
		ref.BlockOwnerDeletion = ptr(true)
		m.SetOwnerReferences([]metav1.OwnerReference{ref})
	})
	c.delete(a, foreground)
	c.gone(a, b, d)
}

// Orphaning keeps the dependents and removes their owner references; then the owner is removed.
func TestOrphan(t *testing.T) {
	c := newCluster(t)
	c.start()
	owner, other := c.thing("owner"), c.thing("other")
	child := c.thing("child", blocking(owner))
	shared := c.thing("shared", ownedBy(owner, other))
	c.delete(owner, orphan)
	c.gone(owner)
	c.stays(child, shared)
	if diff := cmp.Diff([][]string{{}, {"other"}}, [][]string{ownersIn(c.get(child.Key)), ownersIn(c.get(shared.Key))}); diff != "" {
		t.Error(diff)
	}
}

// A dependent that was created just before the deletion of its owner is orphaned like the others, whatever else happens at the time.
func TestOrphanMissesNone(t *testing.T) {
	c := newCluster(t)
	c.start()
	for i := range 50 {
		owner := c.create("secrets", &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("owner-", i), Namespace: "ns"}})
		child := c.thing(fmt.Sprint("child-", i), ownedBy(owner))
		c.delete(owner, orphan)
		c.gone(owner)
		if o := c.get(child.Key); o == nil || len(ownersIn(o)) > 0 {
			t.Fatalf("child %d was not orphaned", i)
		}
	}
	c.settle()
	s, err := c.store.Snapshot(c.ctx, "configmaps", resources.At{Match: resources.MostRecent})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Count("ns", ""); n != 50 {
		t.Errorf("%d of 50 orphans are there", n)
	}
}

// Deletions that began while no garbage collector ran are completed at the start.
func TestDeletionsBegunBefore(t *testing.T) {
	c := newCluster(t)
	one, two := c.thing("one"), c.thing("two")
	stays, goes := c.thing("stays", ownedBy(one)), c.thing("goes", blocking(two))
	c.delete(one, orphan)
	c.delete(two, foreground)
	stop := c.start()
	c.gone(one, two, goes)
	stop()
	c.start()
	c.stays(stays)
}

// An object with many dependents is deleted with all of them.
func TestManyDependents(t *testing.T) {
	c := newCluster(t)
	c.start()
	root := c.thing("root")
	for i := range 10 {
		branch := c.thing(fmt.Sprint("branch-", i), blocking(root))
		for j := range 20 {
			c.thing(fmt.Sprintf("leaf-%d-%d", i, j), blocking(branch))
		}
	}
	c.delete(root, foreground)
	c.gone(root)
	if n := len(c.ends("configmaps", root.Revision)); n != 211 {
		t.Errorf("%d of 211 objects ended before their owner did", n)
	}
}
