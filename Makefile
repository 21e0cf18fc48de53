# redislock: GNU make. `make help` lists the targets and variables, CONTRIBUTING.md explains them.

VERSION := $(shell cat VERSION)

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
MODULEDIR ?= $(PREFIX)/lib/redislock
MANDIR ?= $(PREFIX)/share/man
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
ARCHIVE ?= redislock-$(VERSION).tar.gz

CFLAGS ?= -O2 -g
PKG_CONFIG ?= pkg-config
INSTALL ?= install
# More than there are cores: suites wait most of their time.
JOBS ?= 3

# --- Where things are built: each sanitizer has a folder of its own ---------------------------

comma := ,
hash := \#
sanitizers := $(subst $(comma), ,$(SANITIZE))
ifeq ($(STATIC),1)
BUILD ?= build-static
else ifeq ($(sanitizers),)
BUILD ?= build
else
BUILD ?= build-$(patsubst address,asan,$(patsubst thread,tsan,$(firstword $(sanitizers))))
endif

program := $(BUILD)/redislock

# The TLS module is built where OpenSSL's headers are; TLS=0 leaves it out, TLS=1 insists on it. A
# static program has it inside.
tls_module := $(BUILD)/redislock-tls.so
tls_sources := src/redis/tls/openssl.c src/base/text.c
tls_objects := $(tls_sources:src/%.c=$(BUILD)/tls/%.o)
ifneq ($(TLS),0)
tls := $(if $(STATIC),,$(shell $(PKG_CONFIG) --exists openssl 2>/dev/null && echo $(tls_module)))
endif

# --- What is built -----------------------------------------------------------------------------

sources := $(sort $(wildcard src/*/*.c) src/main.c $(if $(STATIC),src/redis/tls/openssl.c src/base/static/start.c))
scripts := $(sort $(wildcard src/lua/*.lua src/lua/lib/*.lua))
embedded := $(BUILD)/lua/scripts

pages := $(sort $(wildcard man/*.[1-8]))

objects := $(sources:src/%.c=$(BUILD)/obj/%.o) $(embedded).o
library_objects := $(filter-out $(BUILD)/obj/main.o,$(objects))

unit_sources := $(sort $(wildcard tests/unit/test_*.c))
unit_helpers := $(filter-out $(unit_sources),$(sort $(wildcard tests/unit/*.c)))
unit_tests := $(unit_sources:tests/unit/%.c=$(BUILD)/unit/%)
unit_helper_objects := $(unit_helpers:tests/unit/%.c=$(BUILD)/unit/%.o)
bench_tools := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(sort $(wildcard tests/bench/*.c))) \
	$(BUILD)/bench/bare-static
chaos_tools := $(BUILD)/chaos/job $(BUILD)/chaos/clockstep.so
tools := $(patsubst tests/tools/%.c,$(BUILD)/tools/%,$(sort $(wildcard tests/tools/*.c)))

# --- How: ours first, so that CFLAGS, CPPFLAGS and LDFLAGS of the user have the last word --------

warnings := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wformat=2 -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla -Wwrite-strings -Wcast-qual -Wundef -Wswitch-enum
ifeq ($(WERROR),1)
warnings += -Werror
endif

# $(call accepted,FLAGS): FLAGS if the compiler takes them without a word, else nothing.
accepted = $(shell echo '$(hash)include <stdio.h>' | \
	$(CC) $(CPPFLAGS) $(filter-out --coverage,$(CFLAGS)) -Werror $(1) -x c -c -o /dev/null - 2>/dev/null && echo '$(1)')

# Asked only by goals that compile here and now; the others hand over to a make of their own.
compiling := $(filter-out clean help deps demo pictures bench plots chaos fuzz coverage static list-tests check check-% lint \
	lint-% dist deb build-deb uninstall,\
	$(or $(MAKECMDGOALS),all))

ifneq ($(compiling),)
hardening := $(call accepted,-fstack-clash-protection) $(call accepted,-fcf-protection)
# A level the user named stays; without -O the headers would only warn; sanitizers see more without.
ifeq ($(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS))$(sanitizers),)
hardening += $(or $(call accepted,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3),\
	$(call accepted,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
endif

# Headers of others are theirs to keep clean: -isystem.
# hiredis 0.14 names only its own folder, and we write <hiredis/hiredis.h>: its parent as well.
library_cflags := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags hiredis libsodium 2>/dev/null)) \
	$(addprefix -isystem ,$(filter-out /usr/include,\
		$(patsubst %/hiredis,%,$(shell $(PKG_CONFIG) --variable=includedir hiredis 2>/dev/null))))

# A static archive of hiredis and libsodium makes the start cheaper by half of its instructions;
# everything else is the system's. LINK=shared is for packagers.
# $(call library,PACKAGE,NAME): the archive where there is one, else what pkg-config says.
archive = $(firstword $(wildcard $(shell $(PKG_CONFIG) --variable=libdir $(1) 2>/dev/null)/lib$(2).a \
	$(filter /%,$(shell $(CC) -print-file-name=lib$(2).a 2>/dev/null))))
library = $(or $(if $(filter shared,$(LINK)),,$(call archive,$(1),$(2))),\
	$(shell $(PKG_CONFIG) --libs $(1) 2>/dev/null))
libraries := $(call library,hiredis,hiredis) $(call library,libsodium,sodium)
ifeq ($(STATIC),1)
libraries += $(shell $(PKG_CONFIG) --static --libs openssl 2>/dev/null)
endif
endif

# What makes the program position independent, or one file that needs no other.
position := -fPIE
position_link := -pie
ifeq ($(STATIC),1)
# without merged constants: our texts would be tails of OpenSSL's, on pages that nothing else is read of
position := -fno-pie -fno-merge-constants -DREDISLOCK_TLS_BUILTIN
# without warnings: the linker's, of getaddrinfo, which reads files and asks DNS without a library
position_link := -static -no-pie -Wl,--no-warnings
start := $(addprefix -Wl$(comma)--wrap=,_dl_get_origin OPENSSL_cpuid_setup) # src/base/static/start.c
endif

ifneq ($(sanitizers),)
sanitizing := -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

cppflags := -D_GNU_SOURCE -DREDISLOCK_VERSION='"$(VERSION)"' -Isrc -I$(BUILD) $(library_cflags) $(CPPFLAGS)
cflags := -std=c11 -pthread $(warnings) $(position) -ffunction-sections -fdata-sections -fstack-protector-strong $(hardening) $(sanitizing) \
	-ffile-prefix-map='$(CURDIR)'=. $(CFLAGS)
ldflags := $(position_link) -pthread -Wl,-z,relro -Wl,-z,now -Wl,--as-needed -Wl,--gc-sections $(sanitizing) $(CFLAGS) $(LDFLAGS)

# What a sanitizer finds is written to files in this folder, by whatever user.
ifneq ($(sanitizers),)
findings := $(abspath $(BUILD))/findings
watch := $(BUILD)/sanitizer.o
endif

# Of `make coverage`: the counters are written before _exit as well.
ifeq ($(COVERAGE),1)
flush := $(BUILD)/coverage/flush.o -Wl,--wrap=_exit
endif

# V=1 shows the commands.
say = $(if $(V),,@echo '  $(1)';)

compile := $(CC) $(cppflags) $(cflags) -MMD -MP -c
link := $(CC) $(ldflags) $(watch) $(start)

# --- Targets -----------------------------------------------------------------------------------

.PHONY: all
all: $(program) $(if $(STATIC),,$(or $(tls),without-tls)) ## build build/redislock (the default)

# Nobody is to learn it from the first rediss://.
.PHONY: without-tls
without-tls:
ifneq ($(TLS),0)
	@echo "redislock-tls.so is not built, so rediss:// will not work: OpenSSL's headers are missing" >&2
	@echo "(make deps installs them, TLS=0 says that it is meant so)" >&2
	@$(if $(filter 1,$(TLS)),exit 1,true)
endif

.PHONY: static
static: ## build build-static/redislock: one file, TLS inside, for any Linux of this architecture
	@$(MAKE) --no-print-directory STATIC=1 all

$(program): $(objects) $(watch) $(filter %.o,$(flush)) $(BUILD)/.link
	$(call say,link $@)$(link) -o $@ $(objects) $(flush) $(libraries)

$(BUILD)/obj/%.o: src/%.c $(BUILD)/.compile | $(embedded).h
	@mkdir -p $(@D)
	$(call say,cc $<)$(compile) -o $@ $<

# Only the loader knows the module's folder, so another PREFIX compiles one file again.
$(BUILD)/obj/redis/tls_load.o: src/redis/tls_load.c $(BUILD)/.compile $(BUILD)/.moduledir | $(embedded).h
	@mkdir -p $(@D)
	$(call say,cc $<)$(compile) -DREDISLOCK_LIBDIR='"$(MODULEDIR)"' -o $@ $<

# The module holds no code of the program's but what it uses itself, and shows one symbol.
$(BUILD)/tls/%.o: src/%.c $(BUILD)/.compile
	@mkdir -p $(@D)
	$(call say,cc $< (module))$(compile) -fPIC -fvisibility=hidden -o $@ $<

$(tls_module): $(tls_objects) $(BUILD)/.link
	$(call say,link $@)$(CC) $(filter-out -pie,$(ldflags)) -shared -o $@ $(tls_objects) \
		$(shell $(PKG_CONFIG) --libs openssl)

$(embedded).o: $(embedded).c $(BUILD)/.compile
	$(call say,cc $<)$(compile) -o $@ $<

$(embedded).h: $(embedded).c ;
$(embedded).c: tests/tools/embed-lua $(scripts) $(BUILD)/.scripts
	$(call say,embed src/lua)tests/tools/embed-lua src/lua $(@D)

$(BUILD)/sanitizer.o: tests/sanitizer/options.c $(BUILD)/.compile
	@mkdir -p $(@D)
	@install -d -m 1777 '$(findings)'
	$(call say,cc $<)$(compile) -DFINDINGS='"$(findings)"' -o $@ $<

# The command lines as files: a changed flag, compiler, library or list rebuilds what it concerns.
$(BUILD)/.compile: text = $(compile)
$(BUILD)/.link: text = $(link) $(objects) $(libraries)
$(BUILD)/.moduledir: text = $(MODULEDIR)
$(BUILD)/.scripts: text = $(scripts)
$(BUILD)/.compile $(BUILD)/.link $(BUILD)/.moduledir $(BUILD)/.scripts $(BUILD)/fuzz/.compile: \
	libraries-present
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(text))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(text))' >$@

# Says in one line what a compiler would say in fifty. Has no file, so the above are always asked.
.PHONY: libraries-present
libraries-present:
	@$(PKG_CONFIG) --exists hiredis libsodium 2>/dev/null || { \
		echo "hiredis, libsodium or pkg-config is missing: make deps installs what is needed" >&2; \
		exit 1; }

.SECONDARY:

$(BUILD)/unit/%.o: tests/unit/%.c $(BUILD)/.compile | $(embedded).h
	@mkdir -p $(@D)
	$(call say,cc $<)$(compile) -Itests/unit -o $@ $<

$(BUILD)/unit/%: $(BUILD)/unit/%.o $(unit_helper_objects) $(library_objects) $(watch) $(BUILD)/.link
	$(call say,link $@)$(link) -o $@ $< $(unit_helper_objects) $(library_objects) $(libraries)

# The tools stand alone: what they show of a process must not pass through the code under test. They have
# no threads, and without that sanitizer start ten times as fast.
build_tool = $(call say,cc $<)$(CC) $(cppflags) $(filter-out -fsanitize=thread,$(cflags)) -MMD -MP -MF $@.d \
	-o $@ $< $(if $(filter thread,$(sanitizers)),,$(watch)) $(filter-out -fsanitize=thread,$(ldflags))

$(BUILD)/tools/%: tests/tools/%.c $(watch) $(BUILD)/.compile
	@mkdir -p $(@D)
	$(build_tool)

$(BUILD)/bench/%: tests/bench/%.c $(watch) $(BUILD)/.compile
	@mkdir -p $(@D)
	$(build_tool)

# The floor under the static build.
$(BUILD)/bench/bare-static: tests/bench/bare.c $(BUILD)/.compile
	@mkdir -p $(@D)
	$(call say,cc $< static)$(CC) $(cppflags) $(filter-out $(position) $(sanitizing),$(cflags)) -static -o $@ $<

# Preloaded into servers: without what belongs to programs, or to the sanitizers.
$(BUILD)/chaos/clockstep.so: tests/chaos/clockstep.c $(BUILD)/.compile
	@mkdir -p $(@D)
	$(call say,cc $<)$(CC) $(cppflags) $(filter-out $(position) $(sanitizing),$(cflags)) -fPIC -shared -o $@ $<

$(BUILD)/chaos/%: tests/chaos/%.c tests/tools/tool.h $(watch) $(BUILD)/.compile
	@mkdir -p $(@D)
	$(build_tool)

.PHONY: tests test-tools
tests: all $(unit_tests) $(tools)
test-tools: $(tools)

-include $(objects:.o=.d) $(unit_tests:=.d) $(unit_helper_objects:.o=.d) $(tools:=.d) \
	$(bench_tools:=.d)

# --- Tests -------------------------------------------------------------------------------------

# TESTS=tests/faults-lost.bats or TESTS=tests/unit/test_url.c runs only these. Without it all are run that
# have a meaning for the program at hand: the ordinary one has them all. These look at texts, pictures, house
# rules, at what is built and how, and would only say the same again:
not_of_the_program := chaos dist embed-lua install layers map pictures plots static
# strace and valgrind look at the program as it is, not at a sanitizer or at counters; and valgrind does not
# know the allocator and the string functions inside a static program.
left_out := $(if $(sanitizers)$(COVERAGE)$(STATIC),$(not_of_the_program) valgrind) \
	$(if $(sanitizers)$(COVERAGE),inject)
TESTS ?= $(unit_sources) $(filter-out $(left_out:%=tests/%.bats),$(sort $(wildcard tests/*.bats)))
selected := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(TESTS))

.PHONY: list-tests
list-tests:
	@printf '%s\n' $(TESTS)

.PHONY: check
check: ## install what the tests need, build, run the unit tests and suites (TESTS=… selects)
	@tests/tools/deps check
	@$(MAKE) --no-print-directory run-tests

.PHONY: check-asan
check-asan: ## the same under the address and undefined behaviour sanitizers
	@tests/tools/deps check
	@$(MAKE) --no-print-directory SANITIZE=address,undefined run-tests

.PHONY: check-static
check-static: ## the same with the static program
	@tests/tools/deps check
	@$(MAKE) --no-print-directory STATIC=1 run-tests

.PHONY: check-tsan
check-tsan: ## the same under the thread sanitizer
	@tests/tools/deps check
	@$(MAKE) --no-print-directory SANITIZE=thread run-tests

# Takes minutes and a mirror, so `make check` does without. Needs root.
.PHONY: check-deb
check-deb: ## build, install, try and purge the Debian package in clean roots (needs root)
	@tests/tools/deps deb
	@$(MAKE) --no-print-directory test-tools
	DEBS='$(abspath $(debs))' REDISLOCK_TOOLS='$(abspath $(BUILD))/tools' \
		TEST_SECONDS=10000 prove --exec tests/tools/run-test tests/package/deb.bats </dev/null

.PHONY: check-all
check-all: lint check check-static check-asan check-tsan ## lint, and the tests with every build

# Whatever a sanitizer found fails the run, also in a process that no test looks at.
.PHONY: run-tests
run-tests: export REDISLOCK_BIN := $(abspath $(program))
run-tests: export REDISLOCK_TOOLS := $(abspath $(BUILD))/tools
run-tests: tests
	$(if $(findings),@rm -f '$(findings)'/*)
	prove --timer -j$(JOBS) --exec tests/tools/run-test $(selected) </dev/null$(if $(findings),; status=$$?; \
		! tests/tools/findings '$(findings)'/* >&2 || { echo 'the sanitizers found something' >&2; exit 1; }; \
		exit $$status)

# --- Coverage ------------------------------------------------------------------------------------

COVERAGE_LEAST ?= 90

.PHONY: coverage
coverage: ## line coverage of src by the tests, by floor; fails below 90 % (TESTS=… selects)
	@tests/tools/deps ci
	@rm -f $$(find build-coverage -name '*.gcda' 2>/dev/null)
	-@$(MAKE) --no-print-directory BUILD=build-coverage COVERAGE=1 \
		CFLAGS='-O0 -g --coverage -fprofile-update=atomic' run-tests
	@gcovr --root . --filter src/ --csv build-coverage/lines.csv build-coverage
	@tests/tools/coverage $(COVERAGE_LEAST) <build-coverage/lines.csv

$(BUILD)/coverage/flush.o: tests/coverage/flush.c $(BUILD)/.compile
	@mkdir -p $(@D)
	$(call say,cc $<)$(CC) -std=c11 -D_GNU_SOURCE -pthread -fPIE -O2 -c -o $@ $<

# --- Fuzzing: each target of tests/fuzz for SECONDS, or RUNS times, from its own corpus ------------

fuzz_targets := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/*.c)))
fuzz_compile := clang $(cppflags) -std=c11 -pthread $(warnings) -g -O2 -fsanitize=address,undefined \
	-fno-sanitize-recover=all
fuzz_objects := $(filter-out $(BUILD)/fuzz/src/main.o,$(sources:src/%.c=$(BUILD)/fuzz/src/%.o)) \
	$(BUILD)/fuzz/src/scripts.o

# The program is whole in this one, but for what makes a run slow or unlike the next.
fuzz_link_server := $(addprefix -Wl$(comma)--wrap=,socket_connect clock_boot_ms clock_wall_ms \
	deadline_wait token_make token_random_below)

# The longest input, where 1500 bytes are too few to meet every limit.
fuzz_length_password := 4200
fuzz_length_reply := 6000

.PHONY: fuzz
fuzz: ## run the fuzz targets with clang's libFuzzer (SECONDS=20 each, or RUNS=10000000)
	@tests/tools/deps ci
	@$(MAKE) --no-print-directory $(fuzz_targets:%=run-fuzz-%)

# The corpus of the repository is read, what is found on the way goes to the build folder. fd 2 is
# closed for all but libFuzzer, whose own word then does not mix with what the program says.
run-fuzz-%: $(BUILD)/fuzz/%
	@mkdir -p $(BUILD)/fuzz/corpus-$*
	@cd $(BUILD)/fuzz && { ./$* $(if $(RUNS),-runs=$(RUNS),-max_total_time=$(or $(SECONDS),20)) -timeout=5 \
		-max_len=$(or $(fuzz_length_$*),1500) -malloc_limit_mb=64 -close_fd_mask=2 -print_final_stats=1 \
		$(if $(wildcard tests/fuzz/$*.dict),-dict=$(CURDIR)/tests/fuzz/$*.dict) -artifact_prefix=$*- \
		corpus-$* $(CURDIR)/tests/fuzz/corpus/$* </dev/null >$*.log 2>&1 || { tail -n 40 $*.log >&2; \
		echo "$*: the input is in $(BUILD)/fuzz" >&2; exit 1; }; }
	@awk -v name='$*' '/\tDONE / { coverage = $$4 } /^Done / { runs = $$2; time = $$5 } \
		END { printf "  fuzz %-10s %s runs in %s s, %s edges\n", name, runs, time, coverage }' \
		$(BUILD)/fuzz/$*.log

# Keeps of the inputs found so far what adds to the coverage, in as few and short files as will do.
fuzz-merge-%: $(BUILD)/fuzz/%
	@rm -rf $(BUILD)/fuzz/merged-$* && mkdir -p $(BUILD)/fuzz/merged-$*
	cd $(BUILD)/fuzz && ./$* -merge=1 -close_fd_mask=2 merged-$* $(CURDIR)/tests/fuzz/corpus/$* \
		corpus-$* </dev/null

$(BUILD)/fuzz/.compile: text = $(fuzz_compile)
$(BUILD)/fuzz/%: $(BUILD)/fuzz/tests/%.o $(fuzz_objects)
	$(call say,link $@)clang -g -pthread -fsanitize=fuzzer,address,undefined $(fuzz_link_$*) -o $@ \
		$< $(fuzz_objects) $(libraries)

$(BUILD)/fuzz/tests/%.o: tests/fuzz/%.c tests/fuzz/fuzz.h $(BUILD)/fuzz/.compile | $(embedded).h
	@mkdir -p $(@D)
	$(call say,fuzzer $<)$(fuzz_compile) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

$(BUILD)/fuzz/src/%.o: src/%.c $(BUILD)/fuzz/.compile | $(embedded).h
	@mkdir -p $(@D)
	$(call say,fuzzer $<)$(fuzz_compile) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

$(BUILD)/fuzz/src/scripts.o: $(embedded).c $(BUILD)/fuzz/.compile
	@mkdir -p $(@D)
	$(call say,fuzzer $<)$(fuzz_compile) -c -o $@ $<

-include $(fuzz_objects:.o=.d) $(fuzz_targets:%=$(BUILD)/fuzz/tests/%.d)

# --- The model of the protocol ----------------------------------------------------------------

.PHONY: model
model: ## check the model of the protocol with spin, and that every break of it is found
	@tests/tools/deps ci
	tests/model/check

# --- Chaos: real servers and hundreds of contenders, under faults that follow from a seed -----------

.PHONY: chaos
chaos: ## hosts and servers under a seeded schedule of faults (SECONDS=60 SEED=…); needs root
	@tests/tools/deps check
	@$(MAKE) --no-print-directory run-chaos

.PHONY: chaos-tools
chaos-tools: $(chaos_tools)

.PHONY: run-chaos
run-chaos: $(program) chaos-tools
	tests/chaos/run --seconds '$(or $(SECONDS),60)' $(if $(SEED),--seed '$(SEED)') \
		--program '$(program)' --tools '$(BUILD)/chaos'

# --- Benchmark: figures, not verdicts, so no test runs it -----------------------------------------

.PHONY: bench
bench: ## measure what redislock costs beside flock(1) (SECTIONS='wrap refuse' selects)
	@tests/tools/deps demo
	@$(MAKE) --no-print-directory static
	@$(MAKE) --no-print-directory run-bench

.PHONY: bench-tools
bench-tools: $(bench_tools)

# What it prints is kept for `make plots`. A pipe has the status of its last command.
figures := $(BUILD)/bench.txt
.PHONY: run-bench
run-bench: $(program) bench-tools $(BUILD)/tools/proxy
	@{ REDISLOCK_BIN='$(abspath $(program))' REDISLOCK_BENCH_TOOLS='$(abspath $(BUILD))/bench' \
		REDISLOCK_TOOLS='$(abspath $(BUILD))/tools' \
		REDISLOCK_STATIC='$(abspath build-static/redislock)' \
		tests/bench/run $(SECTIONS); echo $$? >'$(BUILD)/bench.status'; } | tee '$(figures)'
	@exit $$(cat '$(BUILD)/bench.status')

# The figures that the README shows are in the tree, with the pictures made of them.
.PHONY: plots
plots: ## draw the README's plots again, of docs/plots/bench.txt (what `make bench` has printed)
	tests/bench/plot docs/plots/bench.txt docs/plots

# --- Lint --------------------------------------------------------------------------------------

shell_scripts = .ci/run tests/bench/run tests/model/check docs/pictures/shoot $(wildcard completions/*.bash) \
	$(shell grep -lE '^$(hash)!.*[ /](ba)?sh$$' tests/tools/* debian/tests/* docs/examples/*)
suites = $(wildcard tests/*.bats tests/*/*.bats tests/*.bash tests/lib/*.bash tests/bench/*.bash)
c_files = $(sort $(wildcard src/*.[ch] src/*/*.[ch] src/*/*/*.[ch] tests/unit/*.[ch] tests/tools/*.[ch] tests/bench/*.[ch] tests/chaos/*.[ch] \
	tests/fuzz/*.[ch] tests/coverage/*.c tests/sanitizer/*.c))

.PHONY: lint
lint: ## every static check: both compilers, clang-tidy, cppcheck, the analyzer, scripts, texts
	@tests/tools/deps ci
	@$(MAKE) --no-print-directory lint-gcc lint-clang lint-analyzer \
		lint-format lint-cppcheck lint-tidy lint-sh lint-lua lint-text

.PHONY: lint-gcc lint-clang lint-analyzer lint-format lint-cppcheck lint-tidy lint-sh lint-lua \
	lint-text
lint-gcc:
	@$(MAKE) --no-print-directory CC=gcc WERROR=1 BUILD=build-gcc tests bench-tools chaos-tools

ifneq ($(BUILD),build-gcc)
build-gcc/lua/scripts.h: $(scripts) tests/tools/embed-lua
	@$(MAKE) --no-print-directory BUILD=build-gcc $@
endif

lint-clang:
	@$(MAKE) --no-print-directory CC=clang WERROR=1 BUILD=build-clang tests bench-tools chaos-tools

# gcc 12 takes memory that a struct behind a pointer owns for leaked; check-asan sees real leaks.
lint-analyzer:
	@$(MAKE) --no-print-directory CC=gcc WERROR=1 BUILD=build-analyzer \
		CFLAGS='-O2 -fanalyzer -Wno-analyzer-malloc-leak' all

lint-format:
	$(call say,clang-format)clang-format --dry-run -Werror $(c_files)

lint-cppcheck: build-gcc/lua/scripts.h
	$(call say,cppcheck)cppcheck --quiet -j$(JOBS) --std=c11 --enable=warning,style,performance,portability \
		--inline-suppr --suppress=missingIncludeSystem --suppress=redundantContinue \
		--suppress=variableScope --error-exitcode=1 \
		-D_GNU_SOURCE -DREDISLOCK_VERSION='"$(VERSION)"' -Isrc -Ibuild-gcc $(sources)

lint-tidy: build-gcc/lua/scripts.h
	$(call say,clang-tidy)printf '%s\n' $(sources) | xargs -P$(JOBS) -n1 sh -c 'clang-tidy --quiet "$$0" -- -std=c11 \
		-D_GNU_SOURCE -DREDISLOCK_VERSION="\"$(VERSION)\"" -Isrc -Ibuild-gcc $(warnings) 2>/dev/null || exit 1'

lint-sh:
	$(call say,shellcheck)shellcheck --severity=info $(shell_scripts)
	@# Each test is a process of its own, and variables come and go through `load`.
	$(if $(V),,@)shellcheck --severity=info --exclude=SC2030,SC2031,SC2034,SC2153,SC2154 $(suites)

lint-lua: build-gcc/lua/scripts.h
	$(call say,luac and luacheck)luac -p build-gcc/lua/*.lua
	$(if $(V),,@)luacheck --quiet --no-color --std lua51 --read-globals redis KEYS ARGV -- build-gcc/lua/*.lua

lint-text:
	$(call say,mandoc)! mandoc -T lint $(pages) 2>&1 | \
		grep -vE 'referenced manual not found|outdated mandoc.db'
	$(call say,codespell)codespell src man completions tests debian docs *.md Makefile .ci

.PHONY: format
format: ## give the C files the house's layout
	@clang-format -i $(c_files)

# --- Around ------------------------------------------------------------------------------------

.PHONY: demo
demo: ## install what is missing, build, and show two hosts that fire the same job
	@tests/tools/deps demo
	@$(MAKE) --no-print-directory all
	@REDISLOCK_BIN='$(abspath $(program))' tests/tools/demo

# The figures follow from their descriptions and from src; the screenshots are of real runs.
.PHONY: pictures
pictures: ## make the figures and screenshots of docs/pictures anew
	@tests/tools/deps check
	@$(MAKE) --no-print-directory all
	docs/pictures/draw
	REDISLOCK_BIN='$(abspath $(program))' docs/pictures/shoot

.PHONY: deps
deps: ## install what build, demo and tests need (apt-get, dnf, apk or pacman)
	@tests/tools/deps check

.PHONY: install
install: all ## install into $(DESTDIR)$(PREFIX)
	$(INSTALL) -d '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(BASHDIR)' '$(DESTDIR)$(ZSHDIR)' '$(DESTDIR)$(FISHDIR)'
	$(INSTALL) -m 755 $(program) '$(DESTDIR)$(BINDIR)/redislock'
	$(if $(tls),$(INSTALL) -d '$(DESTDIR)$(MODULEDIR)' && \
		$(INSTALL) -m 644 $(tls_module) '$(DESTDIR)$(MODULEDIR)/redislock-tls.so')
	for page in $(pages); do \
		$(INSTALL) -D -m 644 "$$page" '$(DESTDIR)$(MANDIR)'/man"$${page##*.}/$${page#man/}" || exit; \
	done
	$(INSTALL) -m 644 completions/redislock.bash '$(DESTDIR)$(BASHDIR)/redislock'
	$(INSTALL) -m 644 completions/_redislock '$(DESTDIR)$(ZSHDIR)/_redislock'
	$(INSTALL) -m 644 completions/redislock.fish '$(DESTDIR)$(FISHDIR)/redislock.fish'

.PHONY: uninstall
uninstall: ## remove what install put there
	rm -f '$(DESTDIR)$(BINDIR)/redislock' '$(DESTDIR)$(MODULEDIR)/redislock-tls.so' \
		'$(DESTDIR)$(BASHDIR)/redislock' '$(DESTDIR)$(ZSHDIR)/_redislock' \
		'$(DESTDIR)$(FISHDIR)/redislock.fish'
	for page in $(pages); do \
		rm -f '$(DESTDIR)$(MANDIR)'/man"$${page##*.}/$${page#man/}" || exit; \
	done
	rmdir '$(DESTDIR)$(MODULEDIR)' 2>/dev/null || true

.PHONY: dist
dist: ## make the source archive, redislock-VERSION.tar.gz, from the last commit
	tests/tools/dist '$(ARCHIVE)'

# The package is built from what the source archive holds, in a folder of its own.
debs := $(BUILD)/deb

.PHONY: deb
deb: ## build the Debian package in build/deb, and ask lintian about it
	@tests/tools/deps deb
	@$(MAKE) --no-print-directory build-deb
	@$(MAKE) --no-print-directory lint-deb

.PHONY: build-deb lint-deb
build-deb:
	rm -rf '$(debs)'
	mkdir -p '$(debs)'
	tests/tools/dist '$(debs)/source.tar.gz'
	tar -xzf '$(debs)/source.tar.gz' -C '$(debs)'
	@# What this make was told is not for the package's.
	cd '$(debs)/redislock-$(VERSION)' && env -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL dpkg-buildpackage -us -uc
	rm -rf '$(debs)/redislock-$(VERSION)' '$(debs)/source.tar.gz'

# What an override excuses has its reason beside it.
lint-deb:
	lintian --allow-root --fail-on error,warning --tag-display-limit 0 '$(debs)'/*.changes

.PHONY: clean
clean: ## remove everything that was built
	rm -rf build build-*

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | awk -F'\t' '{ printf "  %-12s %s\n", $$1, $$2 }'
	@echo
	@echo "  Variables: CC CFLAGS CPPFLAGS LDFLAGS PREFIX DESTDIR, WERROR=1, V=1, LINK=shared,"
	@echo "  SANITIZE=address,undefined or thread, TESTS=tests/…, JOBS=3, BUILD=folder, TLS=0 or 1,"
	@echo "  ARCHIVE=file, BINDIR, MODULEDIR, MANDIR, BASHDIR, ZSHDIR, FISHDIR"
