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

// flowConsumer is the manager of the status of FlowSchemas, by the name of kube-apiserver's controller.
const flowConsumer = "api-priority-and-fairness-config-consumer-v1"

// Somebody else, as a server of another release on the same database, may want another status. It is written this often in a minute
// at most, of each FlowSchema, as by kube-apiserver's controller.
const marksPerMinute = 6

// flowMarks has the times of the last minute at which the status of a FlowSchema was written, by its name.
type flowMarks map[string][]time.Time

// wait is how long a FlowSchema is not to be marked yet. One that may be is taken for marked.
func (m flowMarks) wait(name string, now time.Time) time.Duration {
	times := slices.DeleteFunc(m[name], func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(times) < marksPerMinute {
		m[name] = append(times, now)
		return 0
	}
	m[name] = times
	return time.Minute - now.Sub(times[0])
}

// forget drops FlowSchemas of which nothing was written lately: they may be gone.
func (m flowMarks) forget(now time.Time) {
	maps.DeleteFunc(m, func(_ string, times []time.Time) bool { return now.Sub(times[len(times)-1]) >= time.Minute })
}

// markFlows says in the status of every one of the FlowSchemas whether its priority level is one of those. A FlowSchema
// that was changed since is left to the next time: what it is now is not in force yet. It returns when to come again, if some have to wait.
func (p *Plane) markFlows(ctx context.Context, f *flowObjects, schemas []*flowcontrolv1.FlowSchema,
	levels []*flowcontrolv1.PriorityLevelConfiguration, now time.Time) (again time.Duration, err error) {
	// The mandatory ones are in force even while they are not stored.
	levels = slices.Concat(levels, bootstrap.MandatoryPriorityLevelConfigurations)
	exists := func(name string) bool {
		return slices.ContainsFunc(levels, func(l *flowcontrolv1.PriorityLevelConfiguration) bool { return l.Name == name })
	}
	f.marks.forget(now)
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
		if err != nil && !goneMeanwhile(err) {
			return 0, err
		}
	}
	return again, nil
}

// sooner is the shorter of two waits, of which 0 is none.
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

// isMarked tells whether a FlowSchema has a status, as far as is known without asking the database.
func (p *Plane) isMarked(ctx context.Context, name string) (bool, error) {
	o, err := p.Store.Get(ctx, resources.Key{Resource: flowsResource, Name: name}, resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		return false, nil
	}
	return err == nil && gjson.GetBytes(o.Data, "status.conditions.0").Exists(), err
}

// markFlow says in the status of a FlowSchema whether its priority level exists, unless it does already or the FlowSchema,
// as it is stored now, is not to be marked.
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
