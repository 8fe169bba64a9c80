"""Contract suites: what every sampler, runner, model and store must do, to be subclassed in the tests of its author."""
