# Compiles RocksDB into one archive. Called by scripts/natives.sh, which gives:
#   PACKAGE  folder of the crate rust-librocksdb-sys: RocksDB's sources and the additions to its C interface
#   LZ4 ZSTD folders with lz4.h and zstd.h
#   CPU      options that say which processors the code may run on
#   OUT      folder of the result; one object file per source stays there, so a compile that was broken off goes on
# Options and definitions are those of the crate's own build script for Linux with its features lz4, zstd and malloc-usable-size,
# except where a comment says otherwise.
.DEFAULT_GOAL := $(OUT)/librocksdb.a
.DELETE_ON_ERROR:
.SUFFIXES:

CXX := c++
defines := NDEBUG HAVE_ALIGNED_NEW HAVE_UINT128_EXTENSION LZ4 ZSTD ROCKSDB_MALLOC_USABLE_SIZE OS_LINUX ROCKSDB_PLATFORM_POSIX \
  ROCKSDB_LIB_IO_POSIX ROCKSDB_SCHED_GETCPU_PRESENT ROCKSDB_AUXV_GETAUXVAL_PRESENT ROCKSDB_FALLOCATE_PRESENT \
  ROCKSDB_RANGESYNC_PRESENT ROCKSDB_PTHREAD_ADAPTIVE_MUTEX ROCKSDB_BACKTRACE
includes := $(PACKAGE)/c-api-extensions $(PACKAGE)/rocksdb/include $(PACKAGE)/rocksdb \
  $(PACKAGE)/rocksdb/third-party/gtest-1.8.1/fused-src $(PACKAGE) $(LZ4) $(ZSTD)
options := -O2 -std=c++20 -fPIC -fno-rtti -fno-builtin-memcmp -ffunction-sections -fdata-sections $(CPU) -w -include cstdint

# Nothing in the engine reaches these: other programs' formats, tools, and what only RocksDB's own tests use. A source that is
# needed after all is an undefined symbol when the server is linked.
unused :=
listed := $(shell cat $(PACKAGE)/rocksdb_lib_sources.txt)
# The crate brings its own build_version.cc: RocksDB's needs git.
sources := $(addprefix rocksdb/,$(filter-out util/build_version.cc $(unused),$(listed))) build_version.cc c-api-extensions/c_api_extensions.cc
# The largest first, so that no processor is left alone with one of them at the end.
sources := $(shell cd $(PACKAGE) && ls -S $(sources))
objects := $(patsubst %.cc,$(OUT)/%.o,$(sources))
total := $(words $(objects))

# Both are whole or not there, also after SIGKILL: written under another name first.
$(OUT)/%.o: $(PACKAGE)/%.cc
	@mkdir -p $(@D)
	@$(CXX) $(options) $(addprefix -D,$(defines)) $(addprefix -I,$(includes)) -c $< -o $@.part
	@mv $@.part $@
	@printf 'natives: %d of $(total): %s\n' "$$(find $(OUT) -name '*.o' | wc -l)" $*.cc

$(OUT)/librocksdb.a: $(objects)
	@rm -f $@.part
	@printf '%s\n' $(objects) > $(OUT)/objects
	@ar crsD $@.part @$(OUT)/objects
	@mv $@.part $@
