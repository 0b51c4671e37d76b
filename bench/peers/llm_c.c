// SPDX-License-Identifier: MIT
//
// llm.c's CPU program as a rival: it trains a GPT-2 of one of our configurations, after the protocol of bench/compare.
//
//     llm_c --config tiny --threads 1 --serve
//
// A step is forward, zero_grad, backward and AdamW over a batch of random tokens. A GPT-2 has the products of our
// Pre-LN decoder, and besides LayerNorm, biases, GELU and learned positions. bench/compare --rival llm.c builds it from
// train_gpt2.c, which bench/peers/setup fetches, with the flags of its own Makefile.
#define TESTING  // leaves its main out
#include "train_gpt2.c"

typedef struct {
  const char* name;
  int vocab, width, heads, layers, batch;
} Config;
static const Config configs[] = {{"tiny", 256, 128, 4, 6, 8}, {"small", 1024, 256, 8, 8, 8},
                                 {"paperlike", 8192, 768, 12, 6, 4}};
enum { context = 128 };

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static unsigned next_random(unsigned* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/// A checkpoint of zeros, which is how llm.c learns its sizes.
static void write_checkpoint(const char* path, const Config* config) {
  int header[256] = {20240326, 3, context, config->vocab, config->layers, config->heads, config->width, config->vocab};
  GPT2Config sizes = {context, config->vocab, config->vocab, config->layers, config->heads, config->width};
  size_t tensors[NUM_PARAMETER_TENSORS], count = 0;
  fill_in_parameter_sizes(tensors, sizes);
  for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) count += tensors[i];
  FILE* file = fopenCheck(path, "wb");
  float* zeros = calloc(count, sizeof(float));
  int whole = zeros && fwrite(header, sizeof header, 1, file) == 1;
  whole = whole && fwrite(zeros, sizeof(float), count, file) == count;
  free(zeros);
  if (fclose(file) != 0 || !whole) {
    fprintf(stderr, "error: cannot write %s\n  hint: is the disk full?\n", path);
    exit(1);
  }
}

static void fill(float* values, size_t count, float range, unsigned seed) {
  for (size_t i = 0; i < count; i++) values[i] = range * ((float)next_random(&seed) / (1 << 23) - 1);
}
static void fill_with_ones(float* values, size_t count) {
  for (size_t i = 0; i < count; i++) values[i] = 1;
}

int main(int count, char** arguments) {
  const Config* config = &configs[0];
  int threads = 1;
  for (int i = 1; i + 1 < count; i++) {
    if (strcmp(arguments[i], "--threads") == 0) threads = atoi(arguments[i + 1]);
    if (strcmp(arguments[i], "--config") != 0) continue;
    config = NULL;
    for (size_t k = 0; k < sizeof configs / sizeof *configs; k++) {
      if (strcmp(configs[k].name, arguments[i + 1]) == 0) config = &configs[k];
    }
    if (config) continue;
    fprintf(stderr, "error: unknown configuration: %s\n  hint: tiny, small or paperlike\n", arguments[i + 1]);
    return 1;
  }
  omp_set_num_threads(threads);

  char path[] = "/tmp/llm_c_XXXXXX";
  int descriptor = mkstemp(path);
  if (descriptor < 0) {
    fprintf(stderr, "error: cannot create a file in /tmp\n");
    return 1;
  }
  close(descriptor);
  write_checkpoint(path, config);
  GPT2 model;
  gpt2_build_from_checkpoint(&model, path);
  unlink(path);
  fill(model.params_memory, model.num_parameters, 0.03f, 1);
  fill_with_ones(model.params.ln1w, model.param_sizes[2]);
  fill_with_ones(model.params.ln2w, model.param_sizes[8]);
  fill_with_ones(model.params.lnfw, model.param_sizes[14]);

  const int rows = config->batch * context;
  int *inputs = malloc((size_t)rows * sizeof(int)), *targets = malloc((size_t)rows * sizeof(int));
  unsigned seed = 7;
  for (int i = 0; i < rows; i++) {
    inputs[i] = (int)(next_random(&seed) % (unsigned)config->vocab);
    targets[i] = (int)(next_random(&seed) % (unsigned)config->vocab);
  }

  gpt2_forward(&model, inputs, targets, (size_t)config->batch, context);  // says what it allocates
  printf("{\"ready\": true, \"peer\": \"llm.c\", \"parameters\": %zu}\n", model.num_parameters);
  fflush(stdout);
  int steps, done = 0;
  while (scanf(" run %d", &steps) == 1) {
    printf("{\"ms\": [");
    for (int i = 0; i < steps; i++) {
      const double begin = milliseconds();
      gpt2_forward(&model, inputs, targets, (size_t)config->batch, context);
      gpt2_zero_grad(&model);
      gpt2_backward(&model);
      gpt2_update(&model, 1e-5f, 0.9f, 0.999f, 1e-8f, 0.1f, ++done);
      printf("%s%.4f", i ? ", " : "", milliseconds() - begin);
    }
    printf("]}\n");
    fflush(stdout);
  }
  gpt2_free(&model);
  free(inputs);
  free(targets);
  return 0;
}
