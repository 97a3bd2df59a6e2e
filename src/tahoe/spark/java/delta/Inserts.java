package delta;

import java.util.Collections;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * INSERT ... REPLACE USING and REPLACE ON before Spark resolves them. Versions of Spark that can parse them refuse them for every table of a
 * catalog, so that they become overwrites of a table that knows what is to be replaced.
 */
public class Inserts extends Rule {
  public TreeNode apply(TreeNode tree) {
    if (!(tree instanceof InsertIntoStatement)) return tree;
    InsertIntoStatement insert = (InsertIntoStatement) tree;
    Object replaced = replaced(insert);
    if (replaced == null || !(insert.table() instanceof DataSourceV2Relation)) return tree;
    Object table = ((DataSourceV2Relation) insert.table()).table();
    if (!(table instanceof WriteTable)) return tree;
    HashMap fields = new HashMap();
    Object knowing = ((WriteTable) table).replacing(replaced);
    fields.put("table", Cases.changed((Product) insert.table(), Collections.singletonMap("table", knowing)));
    fields.put("replaceCriteriaOpt", Option.empty());
    fields.put("overwrite", Boolean.TRUE);
    return (TreeNode) Cases.changed((Product) insert, fields);
  }

  /** What a statement says of rows to be replaced by others; older versions of Spark have no classes for it. */
  private static Object replaced(InsertIntoStatement insert) {
    for (Iterator parts = insert.productIterator(); parts.hasNext(); ) {
      Object part = parts.next();
      if (!(part instanceof Option) || ((Option) part).isEmpty()) continue;
      String name = ((Option) part).get().getClass().getSimpleName();
      if (name.equals("InsertReplaceOn") || name.equals("InsertReplaceUsing")) return ((Option) part).get();
    }
    return null;
  }

  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) { return new Inserts(); }
  }
}
