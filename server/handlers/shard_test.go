package handlers_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

const (
	lowest, middle, highest = "0x0000000000000000", "0x8000000000000000", "0x10000000000000000"
	nothing                 = "0x0000000000000001"
)

func shardRange(field, from, to string) string {
	return fmt.Sprintf("shardRange(object.metadata.%s, '%s', '%s')", field, from, to)
}

func sharded(path, selector string) string {
	return path + "shardSelector=" + url.QueryEscape(selector)
}

// A list or a watch of a shard has the objects whose hash is in its range, and a list names its selector (KEP-5866). The other expected values were
// recorded from kube-apiserver v1.37 with the gate ShardedListAndWatch.
func TestShards(t *testing.T) {
	a := newAPIWith(t, map[string]bool{"ShardedListAndWatch": true})
	lower, upper := shardRange("uid", lowest, middle), shardRange("uid", middle, highest)
	s := a.listen()
	watch := a.watch(s, sharded(configMaps+"?", lower), nil)
	streaming := a.watch(s, sharded(configMaps+"?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&", upper), nil)
	streaming.expect("BOOKMARK")
	var low, high, seenLow, seenHigh []string
	for i := range 16 {
		name := fmt.Sprintf("c%02d", i)
		w := a.send(configMap(name, "x", "1"))
		in, seen := &high, &seenHigh
		if "0x"+sharding.HashField(gjson.GetBytes(w.Body.Bytes(), "metadata.uid").Str) < middle {
			in, seen = &low, &seenLow
		}
		a.run(patched(name, `{"data":{"k":"2"}}`))
		*in, *seen = append(*in, name), append(*seen, "ADDED "+name+` {"k":"1"}`, "MODIFIED "+name+` {"k":"2"}`)
	}
	watch.expect(seenLow...)
	streaming.expect(seenHigh...)
	if got := a.namesOf(sharded(configMaps+"?", lower)); !slices.Equal(got, low) {
		t.Errorf("the lower shard is %v, want %v", got, low)
	}
	if got := a.namesOf(sharded(configMaps+"?limit=3&", upper)); !slices.Equal(got, high) {
		t.Errorf("the upper shard in pages is %v, want %v", got, high)
	}
	if got := a.namesOf(sharded(configMaps+"?labelSelector=l%3Dy&", lower)); len(got) > 0 {
		t.Errorf("a label that none has selects %v", got)
	}
	none := sharded(configMaps+"?", shardRange("namespace", lowest, nothing))
	a.run(
		exchange{shows: "the selector in its form", do: "GET " + sharded(configMaps+"?", " "+shardRange("namespace", lowest, highest)+"||"+shardRange("namespace", lowest, middle)),
			code: 200, says: says{"items.#": "16", "metadata.shardInfo.selector": shardRange("namespace", lowest, highest) + " || " + shardRange("namespace", lowest, middle)}},
		exchange{do: "GET " + none, code: 200, says: says{"items": "[]", "metadata.shardInfo.selector": shardRange("namespace", lowest, nothing)}},
		exchange{shows: "a name", do: "GET " + none + "&fieldSelector=metadata.name%3Dc01", code: 200,
			says: says{"items": "[]", "metadata.shardInfo.selector": shardRange("namespace", lowest, nothing)}},
		exchange{shows: "a table does not say it", do: "GET " + none, header: asTable, code: 200, says: says{"rows": "[]", "metadata.shardInfo": "-"}},
		exchange{shows: "nor do lists of metadata", do: "GET " + none, code: 200, says: says{"metadata.shardInfo": "-"},
			header: says{"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}},
		exchange{shows: "what is computed is in no shard", do: "GET " + sharded("/api/v1/componentstatuses?", "bad"), code: 200,
			says: says{"metadata.shardInfo": "-", "items.#": "3"}})
	const wrong = "invalid shard selector: unexpected expression kind 3; expected shardRange() call or || operator"
	for _, verb := range []string{"GET ", "DELETE "} {
		a.run(exchange{do: verb + sharded(configMaps+"?", "bad"), code: 500, says: says{"message": wrong, "reason": "-", "status": "Failure"}})
	}
	a.run(
		exchange{do: "GET " + sharded(configMaps+"?watch=1&", "bad"), code: 500, says: says{"message": wrong, "reason": "-"}},
		exchange{do: "GET " + sharded(configMaps+"?", " "), code: 500,
			says: says{"message": "invalid shard selector: empty shard selector is not allowed; omit the parameter for unfiltered lists"}},
		exchange{shows: "no selector", do: "GET " + configMaps + "?shardSelector=", code: 200, says: says{"items.#": "16", "metadata.shardInfo": "-"}},
		exchange{shows: "a shard goes", do: "DELETE " + sharded(configMaps+"?", lower), code: 200, says: says{"items.#": fmt.Sprint(len(low)), "metadata.shardInfo.selector": lower}},
		exchange{do: "GET " + configMaps, code: 200, says: says{"items.#": fmt.Sprint(len(high))}})
}

// namesOf returns the names of the objects of a list, from all its pages. No page has a remaining count, because the remainder may be in another
// shard.
func (a *api) namesOf(path string) (names []string) {
	a.Helper()
	for next := ""; ; {
		body := a.send(exchange{do: "GET " + path + "&continue=" + next}).Body.Bytes()
		for _, name := range gjson.GetBytes(body, "items.#.metadata.name").Array() {
			names = append(names, name.Str)
		}
		if gjson.GetBytes(body, "metadata.remainingItemCount").Exists() {
			a.Errorf("%s says how many are left", path)
		}
		if next = gjson.GetBytes(body, "metadata.continue").Str; next == "" {
			return names
		}
	}
}

// Without the gate a shardSelector is ignored, as any unknown parameter.
func TestNoShards(t *testing.T) {
	newAPI(t).run(configMap("a", "x", "1"),
		exchange{do: "GET " + sharded(configMaps+"?", "bad"), code: 200, says: says{"items.#": "1", "metadata.shardInfo": "-"}})
}

// Without the gate WatchList, a watch does not begin with a list unless its resourceVersion is empty or 0, as it was before, and sendInitialEvents is refused.
func TestNoWatchLists(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.WatchList, false)
	const refused = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
	newAPI(t).run(configMap("a", "x", "1"),
		exchange{do: "GET " + configMaps + streamed, code: 422, says: says{"message": refused}},
		exchange{do: "GET " + configMaps + "?watch=1&timeoutSeconds=1", code: 200, says: says{"type": "ADDED", "object.metadata.name": "a"}},
		exchange{do: "GET " + configMaps + "?watch=1&timeoutSeconds=1&resourceVersion=0", code: 200, says: says{"type": "ADDED", "object.metadata.name": "a"}})
}
