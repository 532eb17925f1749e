package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// flowConsumer is the field manager of the status of FlowSchemas: the name of kube-apiserver's controller.
const flowConsumer = "api-priority-and-fairness-config-consumer-v1"

// Another client (a server of another release on the same database, for example) may want another status. This limits the writes
// per FlowSchema and minute, as in kube-apiserver's controller.
const marksPerMinute = 6

// flowMarks holds, by the name of a FlowSchema, the times of the last minute at which its status was written.
type flowMarks map[string][]time.Time

// wait returns how long to wait before a FlowSchema may be marked. If the wait is 0, it counts the mark.
func (m flowMarks) wait(name string, now time.Time) time.Duration {
	times := slices.DeleteFunc(m[name], func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(times) < marksPerMinute {
		m[name] = append(times, now)
		return 0
	}
	m[name] = times
	return time.Minute - now.Sub(times[0])
}

// forget drops FlowSchemas without a recent write: they may have been deleted.
func (m flowMarks) forget(now time.Time) {
	maps.DeleteFunc(m, func(_ string, times []time.Time) bool { return now.Sub(times[len(times)-1]) >= time.Minute })
}

// markFlows sets the status of each FlowSchema to whether its priority level is among levels. A FlowSchema that was changed since is left
// to the next run, because its new form is not in force yet. When some have to wait, it returns for how long. A refused write does not stop the
// others.
func (p *Plane) markFlows(ctx context.Context, f *flowObjects, schemas []*flowcontrolv1.FlowSchema,
	levels []*flowcontrolv1.PriorityLevelConfiguration, now time.Time) (again time.Duration, err error) {
	// The mandatory levels are in force even while they are not stored.
	levels = slices.Concat(levels, bootstrap.MandatoryPriorityLevelConfigurations)
	exists := func(name string) bool {
		return slices.ContainsFunc(levels, func(l *flowcontrolv1.PriorityLevelConfiguration) bool { return l.Name == name })
	}
	f.marks.forget(now)
	var refused refusals
	for _, schema := range schemas {
		level := schema.Spec.PriorityLevelConfiguration.Name
		if slices.ContainsFunc(schema.Status.Conditions, dangling(level, exists).is) {
			continue
		}
		if wait := f.marks.wait(schema.Name, now); wait > 0 {
			again = sooner(again, wait)
			continue
		}
		err = p.markFlow(ctx, f.status, schema.Name, exists, func(now *flowcontrol.FlowSchema) bool {
			return now.UID == schema.UID && now.Generation == schema.Generation
		})
		key := resources.Key{Resource: flowsResource, Name: schema.Name}
		if err = refused.pass(resources.UnlessGone(ctx, p.Store, key, schema.UID, 0, err)); err != nil {
			return 0, err
		}
	}
	return again, refused.err()
}

// sooner returns the shorter of two waits; 0 means no wait.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// danglingCondition says whether the priority level of a FlowSchema exists.
type danglingCondition struct {
	status          metav1.ConditionStatus
	reason, message string
}

func dangling(level string, exists func(string) bool) danglingCondition {
	const references = "This FlowSchema references the PriorityLevelConfiguration object named %q "
	if exists(level) {
		return danglingCondition{metav1.ConditionFalse, "Found", fmt.Sprintf(references+"and it exists", level)}
	}
	return danglingCondition{metav1.ConditionTrue, "NotFound", fmt.Sprintf(references+"but there is no such object", level)}
}

func (d danglingCondition) is(c flowcontrolv1.FlowSchemaCondition) bool {
	return c.Type == flowcontrolv1.FlowSchemaConditionDangling && string(c.Status) == string(d.status) && c.Reason == d.reason &&
		c.Message == d.message
}

// isMarked tells whether a FlowSchema has a status, according to the watch cache.
func (p *Plane) isMarked(ctx context.Context, name string) (bool, error) {
	o, err := p.Store.Get(ctx, resources.Key{Resource: flowsResource, Name: name}, resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		return false, nil
	}
	return err == nil && gjson.GetBytes(o.Data, "status.conditions.0").Exists(), err
}

// markFlow sets the status of a FlowSchema to whether its priority level exists. It writes nothing if the status is right
// already, or if toMark rejects the stored FlowSchema.
func (p *Plane) markFlow(ctx context.Context, manager *fieldmanager.Manager, name string, exists func(level string) bool,
	toMark func(now *flowcontrol.FlowSchema) bool) error {
	t, ok := p.Registry.Catalog().Type(flowsResource)
	if !ok {
		return nil
	}
	r := resources.UpdateRequest{Type: t, Name: name}
	r.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
		schema := existing.(*flowcontrol.FlowSchema)
		if !toMark(schema) {
			return schema.DeepCopy(), nil
		}
		want := dangling(schema.Spec.PriorityLevelConfiguration.Name, exists)
		for _, c := range schema.Status.Conditions {
			if want.is(flowcontrolv1.FlowSchemaCondition{Type: flowcontrolv1.FlowSchemaConditionType(c.Type),
				Status: flowcontrolv1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}) {
				return schema.DeepCopy(), nil
			}
		}
		patch := conditionPatch(t, name, map[string]any{"type": string(flowcontrolv1.FlowSchemaConditionDangling),
			"status": string(want.status), "reason": want.reason, "message": want.message})
		return manager.Apply(existing, patch, flowConsumer, true)
	}
	_, _, err := p.Pipeline.Update(resources.APIServer.Request(ctx, "update", t, t.KeyOf("", name), "status"), &r)
	return err
}
