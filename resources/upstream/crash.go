package upstream

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// SurvivePanics has the workers of upstream's controllers log a panic and go on with the next item: an object that their code
// does not foresee must not end the server that they run in.
func SurvivePanics() { utilruntime.ReallyCrash = false }
