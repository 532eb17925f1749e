package equality_test

import (
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var nan = math.NaN()

// deepCopy copies a value with everything below it, into its own variable. nil stays nil and empty stays empty.
func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(deepCopy(v.Elem()).Addr())
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(deepCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMap(v.Type()))
			for _, k := range v.MapKeys() {
				out.SetMapIndex(k, deepCopy(v.MapIndex(k)))
			}
		}
	case reflect.Struct:
		if q, ok := v.Interface().(resource.Quantity); ok {
			out.Set(reflect.ValueOf(q.DeepCopy()))
			break
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
	}
	return out
}

// mutate changes one part of a variable, perhaps to an equal value, and returns a description.
func mutate(r *rand.Rand, v reflect.Value) string {
	switch v.Interface().(type) {
	case resource.Quantity:
		return mutateQuantity(r, v.Addr().Interface().(*resource.Quantity))
	case metav1.Time:
		t := v.Addr().Interface().(*metav1.Time)
		t.Time = otherTime(r, t.Time)
		return "a time"
	case metav1.MicroTime:
		t := v.Addr().Interface().(*metav1.MicroTime)
		t.Time = otherTime(r, t.Time)
		return "a time"
	case metav1.FieldsV1:
		raw := [][]byte{nil, {}, []byte(`{"f:a":{}}`)}[r.Intn(3)]
		v.Addr().Interface().(*metav1.FieldsV1).SetRawBytes(raw)
		return fmt.Sprintf("fields %q", raw)
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.NumField() == 0 {
			return "nothing"
		}
		i := r.Intn(v.NumField())
		if !v.Type().Field(i).IsExported() {
			return "nothing"
		}
		return v.Type().Field(i).Name + "." + mutate(r, v.Field(i))
	case reflect.Pointer:
		return mutatePointer(r, v)
	case reflect.Slice:
		return mutateSlice(r, v)
	case reflect.Map:
		return mutateMap(r, v)
	case reflect.Interface:
		return mutateInterface(r, v)
	}
	return mutateScalar(r, v)
}

func mutateScalar(r *rand.Rand, v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"", "x", v.String() + "x", v.String()}[r.Intn(4)])
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{nan, 0, math.Copysign(0, -1), v.Float() + 1}[r.Intn(4)])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		// A change in any of the bytes.
		v.SetInt(v.Int() ^ 1<<(8*r.Intn(int(v.Type().Size()))))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() ^ 1<<(8*r.Intn(int(v.Type().Size()))))
	default:
		panic(v.Type().String())
	}
	return fmt.Sprintf("to %v", v)
}

func mutatePointer(r *rand.Rand, v reflect.Value) string {
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
		if r.Intn(2) == 0 {
			return "new"
		}
	} else if r.Intn(6) == 0 {
		v.SetZero()
		return "to nil"
	}
	return mutate(r, v.Elem())
}

func mutateSlice(r *rand.Rand, v reflect.Value) string {
	switch n := v.Len(); {
	case n == 0 && r.Intn(2) == 0:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, r.Intn(2)))
			return "nil to empty"
		}
		v.SetZero()
		return "empty to nil"
	case n == 0 || r.Intn(8) == 0:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		return "one more"
	case r.Intn(8) == 0:
		v.Set(v.Slice(0, n-1))
		return "one less"
	default:
		return "[]." + mutate(r, v.Index(r.Intn(n)))
	}
}

func mutateMap(r *rand.Rand, v reflect.Value) string {
	if v.Len() == 0 && r.Intn(2) == 0 {
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
			return "nil to empty"
		}
		v.SetZero()
		return "empty to nil"
	}
	key := reflect.New(v.Type().Key()).Elem()
	mutate(r, key)
	value := reflect.New(v.Type().Elem()).Elem()
	if v.Len() == 0 {
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
		return "one more"
	}
	old := v.MapKeys()[r.Intn(v.Len())]
	value.Set(v.MapIndex(old))
	switch r.Intn(4) {
	case 0:
		v.SetMapIndex(old, reflect.Value{})
		return "one less"
	case 1: // equally many, with other keys
		v.SetMapIndex(old, reflect.Value{})
		v.SetMapIndex(key, value)
		return "another key"
	}
	how := mutate(r, value)
	v.SetMapIndex(old, value)
	return "{}." + how
}

func mutateInterface(r *rand.Rand, v reflect.Value) string {
	switch {
	case v.IsNil() && v.NumMethod() == 0:
		v.Set(reflect.ValueOf([]any{"x", 1.5, nan, []any{}, map[string]any{}, map[string]any{"a": "b"}}[r.Intn(6)]))
		return "something"
	case v.IsNil() || r.Intn(2) == 0:
		v.SetZero()
		return "to nil"
	}
	inner := reflect.New(v.Elem().Type()).Elem()
	inner.Set(v.Elem())
	how := mutate(r, inner)
	v.Set(inner)
	return how
}

func mutateQuantity(r *rand.Rand, q *resource.Quantity) string {
	switch r.Intn(4) {
	case 0:
		*q = resource.MustParse([]string{"0", "1", "1000m", "1Ki", "1024", "1.5Gi"}[r.Intn(6)])
	case 1: // the same value in another spelling
		*q = resource.MustParse(q.AsDec().String())
	case 2:
		q.ToDec()
	case 3:
		q.Add(resource.MustParse("1m"))
	}
	return "quantity " + q.String()
}

func otherTime(r *rand.Rand, t time.Time) time.Time {
	switch r.Intn(4) {
	case 0:
		return t.In(time.FixedZone("here", 3600))
	case 1:
		return t.Add(time.Nanosecond)
	case 2:
		return time.Time{}.In(time.FixedZone("here", 3600))
	}
	return time.Now() // with a monotonic clock
}
