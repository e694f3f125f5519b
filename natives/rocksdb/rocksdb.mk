# Compiles RocksDB into one archive. Called by scripts/natives.sh, which gives:
#   PACKAGE  folder of the crate rust-librocksdb-sys: RocksDB's sources and the additions to its C interface
#   LZ4 ZSTD folders with lz4.h and zstd.h
#   CPU      options that say which processors the code may run on
#   PROFILE  empty, or `generate` or `use`, with PROFILES, the folder of the profiles
#   OUT      folder of the result; what is compiled stays there, so a compile that was broken off goes on
# Options and definitions are those of the crate's own build script for Linux with its features lz4, zstd and
# malloc-usable-size, except where a comment says otherwise.
.DEFAULT_GOAL := $(OUT)/librocksdb.a
.DELETE_ON_ERROR:
.SUFFIXES:

CXX := c++
defines := NDEBUG HAVE_ALIGNED_NEW HAVE_UINT128_EXTENSION LZ4 ZSTD ROCKSDB_MALLOC_USABLE_SIZE OS_LINUX \
  ROCKSDB_PLATFORM_POSIX ROCKSDB_LIB_IO_POSIX ROCKSDB_SCHED_GETCPU_PRESENT ROCKSDB_AUXV_GETAUXVAL_PRESENT \
  ROCKSDB_FALLOCATE_PRESENT ROCKSDB_RANGESYNC_PRESENT ROCKSDB_PTHREAD_ADAPTIVE_MUTEX ROCKSDB_BACKTRACE
includes := $(PACKAGE)/c-api-extensions $(PACKAGE)/rocksdb/include $(PACKAGE)/rocksdb \
  $(PACKAGE)/rocksdb/third-party/gtest-1.8.1/fused-src $(PACKAGE) $(LZ4) $(ZSTD)
options := -O2 -std=c++20 -fPIC -fno-rtti -fno-builtin-memcmp -ffunction-sections -fdata-sections $(CPU) -w \
  -include cstdint $(addprefix -D,$(defines)) $(addprefix -I,$(includes))

# Sources that db/c.cc, the C interface, reaches by no chain of symbols. One that is needed after all shows as an undefined
# symbol when the server is linked.
unused := \
  db/blob/blob_log_sequential_reader.cc db/db_impl/db_impl_follower.cc env/fs_on_demand.cc file/readahead_raf.cc \
  memory/memkind_kmem_allocator.cc memory/memory_allocator.cc monitoring/histogram_windowing.cc \
  monitoring/thread_status_impl.cc monitoring/thread_status_updater_debug.cc monitoring/thread_status_util_debug.cc \
  port/stack_trace.cc table/adaptive/adaptive_table_factory.cc table/block_based/builtin_index_factory.cc \
  table/external_table.cc table/sst_file_reader.cc test_util/sync_point.cc test_util/sync_point_impl.cc \
  test_util/transaction_test_util.cc tools/dump/db_dump_tool.cc util/auto_tune_compressor.cc \
  util/simple_mixed_compressor.cc utilities/agg_merge/agg_merge.cc utilities/blob_db/blob_compaction_filter.cc \
  utilities/blob_db/blob_db.cc utilities/blob_db/blob_db_impl.cc utilities/blob_db/blob_db_impl_filesnapshot.cc \
  utilities/blob_db/blob_file.cc utilities/cache_dump_load.cc utilities/cache_dump_load_impl.cc \
  utilities/cassandra/cassandra_compaction_filter.cc utilities/cassandra/format.cc \
  utilities/cassandra/merge_operator.cc utilities/convenience/info_log_finder.cc utilities/debug.cc \
  utilities/env_mirror.cc utilities/fault_injection_env.cc utilities/fault_injection_fs.cc \
  utilities/fault_injection_secondary_cache.cc utilities/leveldb_options/leveldb_options.cc \
  utilities/option_change_migration/option_change_migration.cc utilities/persistent_cache/block_cache_tier.cc \
  utilities/persistent_cache/block_cache_tier_file.cc utilities/persistent_cache/block_cache_tier_metadata.cc \
  utilities/persistent_cache/persistent_cache_tier.cc utilities/persistent_cache/volatile_tier_impl.cc \
  utilities/secondary_index/secondary_index_iterator.cc utilities/secondary_index/simple_secondary_index.cc \
  utilities/simulator_cache/cache_simulator.cc utilities/simulator_cache/sim_cache.cc \
  utilities/sorted_run_builder/sorted_run_builder.cc utilities/types_util.cc

listed := $(shell cat $(PACKAGE)/rocksdb_lib_sources.txt)
# The crate brings its own build_version.cc: RocksDB's needs git.
sources := $(addprefix rocksdb/,$(filter-out util/build_version.cc $(unused),$(listed))) build_version.cc \
  c-api-extensions/c_api_extensions.cc

# Sources are compiled in groups, each one translation unit (RocksDB's own tests compile all of it as one): the headers are read
# and their code is made once a group and not once a source, and the compiler sees across the sources of a group.
group_bytes := 300000
groups := $(shell mkdir -p $(OUT) && cd $(PACKAGE) && wc -c $(sources) | awk -v limit=$(group_bytes) -v out=$(OUT) ' \
  $$2 == "total" { next } \
  filled == 0 || filled + $$1 > limit { filled = 0; name = sprintf("group-%02d", ++count); print name; printf "" > (out "/" name ".cc") } \
  { filled += $$1; print "\043include \"" $$2 "\"" > (out "/" name ".cc") }')
objects := $(groups:%=$(OUT)/%.o)

# A part that the training did not reach is compiled as without a profile.
profile_generate = -fprofile-generate=$(PROFILES) -fprofile-update=prefer-atomic
profile_use = -fprofile-use=$(PROFILES) -fprofile-partial-training

# Whole or not there, also after SIGKILL: written under another name first. The folder belongs to one state of the inputs, so
# times of files say nothing.
$(OUT)/%.o:
	@$(CXX) $(options) $(if $(PROFILE),$(profile_$(PROFILE))) -c $(OUT)/$*.cc -o $@.part
	@mv $@.part $@
	@echo "natives: $$(ls $(OUT)/*.o | wc -l) of $(words $(groups)) parts of RocksDB compiled"

$(OUT)/librocksdb.a: $(objects)
	@rm -f $@.part
	@ar crsD $@.part $(objects)
	@mv $@.part $@
