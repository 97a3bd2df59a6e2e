package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.LambdaVariable;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Prepares a MERGE before Spark resolves it.
 *
 * <p>Spark does not resolve a MERGE whose target has ACCEPT_ANY_SCHEMA, which Delta tables have for INSERT. So the target is replaced by
 * one without it. Stars and assigned columns are replaced by constants, which Spark does not resolve: it would expand stars to the target's
 * columns, cast assigned values by its own rules, and refuse columns that schema evolution is about to add. It casts values to the type of
 * the constant, a text; what has no text, as a geometry, gets a variable of the column's own type instead.
 */
public class Merges extends Rule {
  /** The column and the value in the one assignment of UPDATE SET * or INSERT *. */
  static final Literal STAR = new Literal(null, StringType$.MODULE$);

  private final SparkSession session;

  public Merges(SparkSession session) { this.session = session; }

  public TreeNode apply(TreeNode tree) {
    if (!(tree instanceof MergeIntoTable)) return tree;
    MergeIntoTable merge = (MergeIntoTable) tree;
    if (!merge.targetTable().resolved() || !merge.sourceTable().resolved()) return tree;
    LogicalPlan target = (LogicalPlan) merge.targetTable().transformDown(new Strict());
    if (target == merge.targetTable()) return tree;
    boolean evolves = merge.withSchemaEvolution() || ((Boolean) Ask.answer(Ask.python.autoMerges(session))).booleanValue();
    HashMap fields = new HashMap();
    fields.put("targetTable", target);
    fields.put("matchedActions", actions(merge, merge.matchedActions(), evolves));
    fields.put("notMatchedActions", actions(merge, merge.notMatchedActions(), evolves));
    fields.put("notMatchedBySourceActions", actions(merge, merge.notMatchedBySourceActions(), evolves));
    return (TreeNode) Cases.changed((Product) merge, fields);
  }

  private Seq actions(MergeIntoTable merge, Seq actions, boolean evolves) {
    ArrayList marked = new ArrayList();
    for (Iterator it = actions.iterator(); it.hasNext(); ) marked.add(action(merge, it.next(), evolves));
    return CollectionConverters.asScala(marked).toSeq();
  }

  private Object action(MergeIntoTable merge, Object action, boolean evolves) {
    if (action instanceof UpdateStarAction) return built("UpdateAction", ((UpdateStarAction) action).condition(), star());
    if (action instanceof InsertStarAction) return built("InsertAction", ((InsertStarAction) action).condition(), star());
    if (!(action instanceof UpdateAction) && !(action instanceof InsertAction)) return action;
    Seq given = action instanceof UpdateAction ? ((UpdateAction) action).assignments() : ((InsertAction) action).assignments();
    ArrayList assignments = new ArrayList();
    for (Iterator it = given.iterator(); it.hasNext(); ) assignments.add(assignment(merge, (Assignment) it.next(), evolves));
    Seq all = CollectionConverters.asScala(assignments).toSeq();
    return Cases.changed((Product) action, Collections.singletonMap("assignments", all));
  }

  private static Object built(String name, Option condition, Seq assignments) {
    ArrayList fields = new ArrayList();
    fields.add(condition);
    fields.add(assignments);
    return Cases.built("org.apache.spark.sql.catalyst.plans.logical." + name, fields);
  }

  private static Seq star() {
    return CollectionConverters.asScala(Collections.singletonList(new Assignment(STAR, STAR))).toSeq();
  }

  /** The assignment with a constant for its column, which {@link Target#paths} reads. Unchanged if Spark is to report an unknown column. */
  private Assignment assignment(MergeIntoTable merge, Assignment given, boolean evolves) {
    if (!(given.key() instanceof UnresolvedAttribute) || isDefault(given.value())) return given;
    Seq parts = ((UnresolvedAttribute) given.key()).nameParts();
    Names names = new Names(session);
    String path = names.inTarget(merge.targetTable(), parts, evolves);
    if (path == null && evolves) path = names.inSource(merge, parts);
    return path == null ? given : new Assignment(key(path, names.typeOf(merge, parts)), given.value());
  }

  private static Expression key(String path, DataType type) {
    if (type == null || Cast$.MODULE$.canCast(type, StringType$.MODULE$)) return new Literal(UTF8String.fromString(path), StringType$.MODULE$);
    return new LambdaVariable(path, type, true, 0L);
  }

  /** Whether a value is the word DEFAULT, which Spark resolves by the assigned column. */
  private static boolean isDefault(Object value) {
    if (!(value instanceof UnresolvedAttribute)) return false;
    Seq parts = ((UnresolvedAttribute) value).nameParts();
    return parts.size() == 1 && "DEFAULT".equalsIgnoreCase((String) parts.head());
  }

  /** Looks up names, case-sensitively or not, as the session is configured. */
  private static class Names {
    private final scala.Function2 same;

    Names(SparkSession session) { same = session.sessionState().conf().resolver(); }

    /** The path of a column of the target, or of a field in one; null if there is none. With schema evolution, the field may be new. */
    String inTarget(LogicalPlan target, Seq parts, boolean evolves) {
      if (!evolves && resolved(target, parts) == null) return null;
      for (int length = parts.size(); length > 0; length--) {
        Object found = resolved(target, (Seq) parts.take(length));
        if (found instanceof Attribute) return Target.IDENTITY + ((Attribute) found).exprId().id() + fields(parts, length);
      }
      return null;
    }

    /** The path of a column that only the source has, or of a field in one; null if there is none. */
    String inSource(MergeIntoTable merge, Seq parts) {
      Seq target = merge.targetTable().output();
      Seq qualifier = target.isEmpty() ? null : ((Attribute) target.head()).qualifier();
      for (int start = parts.size() - 1; start >= 0; start--) {
        if (start > 0 && (qualifier == null || !areSame((Seq) qualifier.takeRight(start), (Seq) parts.take(start)))) continue;
        Attribute found = named(merge.sourceTable(), (String) parts.apply(start));
        if (found != null) return found.name() + fields(parts, start + 1);
      }
      return null;
    }

    /** The type of the column, or of the field; null if it is not known. */
    DataType typeOf(MergeIntoTable merge, Seq parts) {
      Object found = resolved(merge.targetTable(), parts);
      if (found == null) found = resolved(merge.sourceTable(), parts);
      if (found == null) found = named(merge.sourceTable(), (String) parts.last());
      return found == null ? null : ((Expression) found).dataType();
    }

    private static String fields(Seq parts, int start) {
      StringBuilder path = new StringBuilder();
      for (int i = start; i < parts.size(); i++) path.append('\u0000').append(parts.apply(i));
      return path.toString();
    }

    /** The expression for a name; null if there is none, or if the name is ambiguous. */
    private Object resolved(LogicalPlan plan, Seq parts) {
      try {
        Option found = plan.resolve(parts, same);
        return found.isDefined() ? found.get() : null;
      } catch (Exception error) {
        return null;
      }
    }

    private boolean areSame(Seq left, Seq right) {
      if (left.size() != right.size()) return false;
      for (int i = 0; i < left.size(); i++) if (!isSame(left.apply(i), right.apply(i))) return false;
      return true;
    }

    private boolean isSame(Object left, Object right) { return ((Boolean) same.apply(left, right)).booleanValue(); }

    private Attribute named(LogicalPlan plan, String name) {
      for (Iterator output = plan.output().iterator(); output.hasNext(); ) {
        Attribute attribute = (Attribute) output.next();
        if (isSame(attribute.name(), name)) return attribute;
      }
      return null;
    }
  }

  /** Replaces the target by the same table without ACCEPT_ANY_SCHEMA. */
  private static class Strict extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (!(node instanceof DataSourceV2Relation)) return false;
      Object table = ((DataSourceV2Relation) node).table();
      return table instanceof WriteTable && !((WriteTable) table).isStrict();
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      WriteTable table = (WriteTable) ((DataSourceV2Relation) node).table();
      return Cases.changed((Product) node, Collections.singletonMap("table", table.strict()));
    }
  }

  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) { return new Merges((SparkSession) session); }
  }
}
